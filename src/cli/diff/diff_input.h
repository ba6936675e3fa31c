#pragma once

#include <vector>

#include "base/status.h"
#include "cli/diff/trace.h"
#include "cli/options.h"

namespace rlgen::cli {

// The sequences that `options` name: the ids given, those of the text, or of each line of the input
// the prompt's ids and the output's (where there are some); lines with an error are passed over.
// Errors name option or file and line.
StatusOr<std::vector<TokenIds>> read_sequences(const DiffOptions& options);

}  // namespace rlgen::cli
