#include "generation/json_line.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

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

// Finds a key that an object has twice, at any depth, while the parser runs.
class DuplicateKeys {
 public:
  void see(ordered_json::parse_event_t event, const ordered_json& parsed) {
    using Event = ordered_json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event != Event::key) return;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open_.back().insert(key).second && !twice_) twice_ = key;
  }
  const std::optional<std::string>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> open_;  // keys of the objects that are not closed yet
  std::optional<std::string> twice_;
};

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
  DuplicateKeys keys;
  const auto watch_keys = [&](int, ordered_json::parse_event_t event, ordered_json& parsed) {
    keys.see(event, parsed);
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
  if (keys.twice()) {
    return absl::InvalidArgumentError(
        fmt::format("key {} is there twice in one object", json_quoted(*keys.twice())));
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

Status wrong_value(std::string_view key, const ordered_json& value, std::string_view wanted) {
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; it must be {}", key, shown(value), wanted));
}

}  // namespace rlgen::generation
