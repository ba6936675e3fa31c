#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::refit {

// Where a trainer's process and a shard meet: both sides call this. `run` is unique for each run
// (and may name the update), `shard` names the shard where there is no GPU with an id of its own.
// kInvalidArgument for a name with other characters than letters, digits, '.', '_' and '-', an
// empty one, or a path longer than a local socket may have.
StatusOr<std::string> ipc_endpoint(std::string_view folder, std::string_view run,
                                   std::string_view shard);

// Each tensor in a buffer starts at a multiple of this.
inline constexpr size_t kIpcAlignment = 512;
constexpr size_t ipc_align(size_t bytes) {
  return (bytes + kIpcAlignment - 1) / kIpcAlignment * kIpcAlignment;
}

}  // namespace rlgen::refit
