#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rlgen {

// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
// (optimal string alignment; bytes, not characters).
std::size_t edit_distance(std::string_view a, std::string_view b);

// True when `distance` is small enough for a name of this length to be taken for a slip.
bool is_likely_slip(std::string_view name, std::size_t distance);

// For error messages: ", did you mean \"top_p\"?" with the candidate nearest to `name` (the first
// of equals), or "" when none is near. `candidates` is any range of things that convert to
// std::string_view.
template <typename Range>
std::string suggest(std::string_view name, const Range& candidates) {
  std::string_view best;
  std::size_t best_distance = static_cast<std::size_t>(-1);
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name, std::string_view(candidate));
    if (distance < best_distance) {
      best = std::string_view(candidate);
      best_distance = distance;
    }
  }
  if (best.empty() || !is_likely_slip(name, best_distance)) return {};
  return ", did you mean \"" + std::string(best) + "\"?";
}

}  // namespace rlgen
