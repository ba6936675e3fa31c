#pragma once

#include <cstddef>
#include <string_view>

namespace rlgen::text {

struct WhitespaceRun {
  std::size_t characters = 0;
  std::size_t offset = 0;  // byte where it begins
};

// The longest run of characters with the Unicode property White_Space in valid UTF-8 `text`; the
// first of equals.
WhitespaceRun longest_whitespace_run(std::string_view text);

}  // namespace rlgen::text
