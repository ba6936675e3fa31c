#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace rlgen::cli {

// Writes beside the results, to standard error. What cannot be written there is let go: a log on a
// full disk or a terminal that went away must not cost a rollout.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace rlgen::cli
