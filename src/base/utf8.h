#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rlgen {

// Offset of the first byte that does not belong to well-formed UTF-8 (Unicode 15, table 3-7:
// no overlong forms, no surrogates, nothing above U+10FFFF); nothing when all of `text` is.
// A character cut off at the end counts from its first byte.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

}  // namespace rlgen
