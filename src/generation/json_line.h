#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::generation {

// Nesting allowed in one line: deep enough for any tool schema, far from the end of any stack.
inline constexpr size_t kMaxJsonDepth = 64;

// The object that one line of a JSONL file holds, keys in the order of the text.
// kInvalidArgument: invalid UTF-8 (with the byte), no JSON (with the column and what is wrong), no
// object, a key met twice in one object, nesting beyond kMaxJsonDepth, a number beyond a double.
StatusOr<nlohmann::ordered_json> parse_json_line(std::string_view line);

// `value` as JSON text on one line; bytes that are no UTF-8 become U+FFFD.
std::string to_json_text(const nlohmann::ordered_json& value);
std::string json_quoted(std::string_view text);

// The text of `value` for an error message, cut after about sixty bytes.
std::string shown(const nlohmann::ordered_json& value);

// kInvalidArgument: "`key` is `value`; it must be `wanted`".
Status wrong_value(std::string_view key, const nlohmann::ordered_json& value,
                   std::string_view wanted);

}  // namespace rlgen::generation
