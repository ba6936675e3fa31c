#include "generation/json_line.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/utf8.h"

namespace rlgen::generation {
namespace {

using nlohmann::ordered_json;

// Deepest nesting of brackets outside of strings.
size_t nesting(std::string_view line) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

// The library's message without its own name for the error.
std::string reason_of(const ordered_json::exception& error) {
  const std::string text = error.what();
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

StatusOr<ordered_json> parse_json_line(std::string_view line) {
  if (const auto bad = first_invalid_utf8(line)) {
    return absl::InvalidArgumentError(fmt::format("the line is not UTF-8 at byte {}", *bad));
  }
  if (const size_t depth = nesting(line); depth > kMaxJsonDepth) {
    return absl::InvalidArgumentError(
        fmt::format("the line nests {} levels deep; {} are allowed", depth, kMaxJsonDepth));
  }
  std::set<std::string> keys;
  std::string twice;
  const auto watch_keys = [&](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    if (depth == 1 && event == ordered_json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.insert(key).second) twice = key;
    }
    return true;
  };
  ordered_json value;
  try {
    value = ordered_json::parse(line, watch_keys);
  } catch (const ordered_json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("the line is no JSON: {}", reason_of(error)));
  }
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("the line holds {}; it must be a JSON object", shown(value)));
  }
  if (!twice.empty()) {
    return absl::InvalidArgumentError(fmt::format("key {} is there twice", json_quoted(twice)));
  }
  return value;
}

std::string to_json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string json_quoted(std::string_view text) {
  return to_json_text(ordered_json(std::string(text)));
}

std::string shown(const ordered_json& value) {
  constexpr size_t kShown = 60;
  std::string text = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace rlgen::generation
