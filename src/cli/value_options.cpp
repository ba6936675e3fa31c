#include "cli/value_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/utf8.h"
#include "generation/json_line.h"

namespace rlgen::cli {
namespace {

template <typename T>
std::optional<T> parse_as(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stopped != end) return std::nullopt;
  return value;
}

[[noreturn]] void refuse_value(const OptionText& option, const std::string& text,
                               std::string_view rule) {
  throw CLI::ValidationError(
      fmt::format("{} is {}; it must be {}", option.name, shown_value(text), rule));
}

CLI::Option* add_text_option(CLI::App* app, const OptionText& text, std::string_view type,
                             const std::function<void(const std::string&)>& read) {
  return app->add_option_function<std::string>(text.name, read, text.help)
      ->type_name(std::string(type));
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) { return parse_as<int64_t>(text); }

std::string shown_value(const std::string& text) {
  const bool number = text.size() < 60 && text.find_first_of("0123456789") != std::string::npos &&
                      text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return number ? text : generation::shown(nlohmann::ordered_json(text));
}

Status check_prompt_text(const std::string& prompt) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError("--prompt is empty; there must be some text");
  }
  const auto bad = first_invalid_utf8(prompt);
  if (!bad) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--prompt is not UTF-8 at byte {}", *bad));
}

CLI::Option* add_whole_number(CLI::App* app, const OptionText& text, const WholeRange& range,
                              std::function<void(int64_t)> set) {
  return add_text_option(app, text, "INT", [=, set = std::move(set)](const std::string& given) {
    const std::optional<int64_t> value = whole_number(given);
    if (!value || !range.contains(*value)) refuse_value(text, given, range.rule());
    set(*value);
  });
}

CLI::Option* add_number(CLI::App* app, const OptionText& text, const NumberRange& range,
                        double* target) {
  CLI::Option* const option = add_text_option(app, text, "FLOAT", [=](const std::string& given) {
    const std::optional<double> value = parse_as<double>(given);
    if (!value || !std::isfinite(*value) || *value < range.low || *value > range.high) {
      refuse_value(text, given,
                   range.words.empty()
                       ? fmt::format("a number from {} to {}", range.low, range.high)
                       : std::string(range.words));
    }
    *target = *value;
  });
  return option->default_str(fmt::format("{}", *target));
}

CLI::Option* add_name(CLI::App* app, const OptionText& text, std::string_view what,
                      std::string* target) {
  return add_text_option(app, text, "TEXT", [=](const std::string& given) {
    if (given.empty()) {
      throw CLI::ValidationError(fmt::format("{} is empty; it must be {}", text.name, what));
    }
    *target = given;
  });
}

}  // namespace rlgen::cli
