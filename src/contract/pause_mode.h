#pragma once

#include <string_view>

#include "base/status.h"
#include "contract/shard.h"

namespace rlgen {

// "keep", "wait", "abort", "retract".
std::string_view pause_mode_name(PauseMode mode);

// The mode of that name; kInvalidArgument for another one, which lists them.
StatusOr<PauseMode> parse_pause_mode(std::string_view name);

}  // namespace rlgen
