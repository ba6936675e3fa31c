#pragma once

#include "base/status.h"

namespace rlgen::cli {

// True for an error about the value of an option, which no other run would accept either.
bool is_option_error(const Status& error);

// `error` with the options' names in place of the fields that they set: "--threads" for
// "num_threads".
Status in_option_words(const Status& error);

}  // namespace rlgen::cli
