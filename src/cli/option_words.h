#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::cli {

// A field as messages of the library name it, and the option that set it.
struct OptionName {
  std::string_view field;   // "num_threads"
  std::string_view option;  // "--threads"
};

// True for an error about the value of an option (contract/spec_error.h), which no other run would
// accept either.
bool is_option_error(const Status& error);

// What is wrong with the command line itself: exit code 2.
inline Status usage_error(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// `error` with the options' names in place of the fields that they set: "--threads" for
// "num_threads". Keeps what callers read from an error beside its message.
Status in_option_words(const Status& error);

// The same for fields that set `names`. A field whose name is a word of the language too ("n",
// "stop") is only one where it begins the message.
Status in_option_words(const Status& error, std::span<const OptionName> names);

}  // namespace rlgen::cli
