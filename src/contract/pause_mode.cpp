#include "contract/pause_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace rlgen {
namespace {

constexpr std::array<std::string_view, 4> kPauseModes = {"keep", "wait", "abort", "retract"};

}  // namespace

std::string_view pause_mode_name(PauseMode mode) { return kPauseModes[static_cast<size_t>(mode)]; }

StatusOr<PauseMode> parse_pause_mode(std::string_view name) {
  for (size_t i = 0; i < kPauseModes.size(); ++i) {
    if (name == kPauseModes[i]) return static_cast<PauseMode>(i);
  }
  return absl::InvalidArgumentError(
      fmt::format("mode is \"{}\"; it must be one of {}", name, fmt::join(kPauseModes, ", ")));
}

}  // namespace rlgen
