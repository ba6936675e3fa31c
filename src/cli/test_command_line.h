#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "cli/command_line.h"

// For the tests of the command line.
namespace rlgen::cli::test {

inline std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

template <typename Options>
Options parse(const std::string& text) {
  const auto parsed = parse_command_line(words(text));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::get<Options>(std::get<Command>(*parsed));
}

inline std::string error_of(const std::string& text) {
  const auto parsed = parse_command_line(words(text));
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
  const std::string message = message_of(parsed.status());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

}  // namespace rlgen::cli::test
