#pragma once

#include <vector>

#include "base/status.h"
#include "cli/diff/trace.h"
#include "cli/options.h"

namespace rlgen::cli {

// The sequences that `options` name: the ids given, those of the text, or of each line of the input
// the prompt's ids and the output's (where there are some); lines with an error are passed over.
// Errors name option or file and line, also for ids that are none of 0 .. vocab_size - 1.
StatusOr<std::vector<TokenIds>> read_sequences(const DiffOptions& options, int32_t vocab_size);

}  // namespace rlgen::cli
