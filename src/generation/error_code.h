#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace rlgen::generation {

// A name of the error for machines: the code set by with_error_code, else the status code in
// snake case ("invalid_argument", "data_loss", ...).
std::string error_code(const Status& status);

// `status` with `code` as its error_code(). OK stays OK.
Status with_error_code(Status status, const std::string& code);

// kInvalidArgument with error code "context_length_exceeded" and both numbers.
Status context_length_exceeded(int64_t prompt_tokens, int64_t max_model_len);

}  // namespace rlgen::generation
