#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "contract/limits.h"

namespace rlgen::cli {

// Options whose values are read here. CLI11 takes 010 for 8, cuts what does not fit into a type,
// and names no range; here each mistake is one sentence, "--name is VALUE; it must be RULE", thrown
// as CLI::ValidationError while the arguments are parsed.

// `text` as a decimal number; nothing for anything else, beyond int64 too.
std::optional<int64_t> whole_number(std::string_view text);

// A value as messages show it: a number as it is, else in quotation marks, cut after sixty bytes.
std::string shown_value(const std::string& text);

// kInvalidArgument where the text given as --prompt is empty or not UTF-8.
Status check_prompt_text(const std::string& prompt);

struct OptionText {
  std::string name;  // "--n"
  std::string help;
};

CLI::Option* add_whole_number(CLI::App* app, const OptionText& text, const WholeRange& range,
                              std::function<void(int64_t)> set);

// Into an integer, with what it holds as the default that the help shows, unless that is 0.
template <typename T>
CLI::Option* add_whole_number(CLI::App* app, const OptionText& text, const WholeRange& range,
                              T* target) {
  CLI::Option* const option = add_whole_number(
      app, text, range, [target](int64_t value) { *target = static_cast<T>(value); });
  return *target == 0 ? option : option->default_str(std::to_string(*target));
}

struct NumberRange {
  double low = 0.0;
  double high = 0.0;
  std::string_view words{};  // as in WholeRange
};

// A finite number.
CLI::Option* add_number(CLI::App* app, const OptionText& text, const NumberRange& range,
                        double* target);

// A text that must not be empty: `what` says what it is, "a file".
CLI::Option* add_name(CLI::App* app, const OptionText& text, std::string_view what,
                      std::string* target);

}  // namespace rlgen::cli
