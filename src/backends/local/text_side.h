#pragma once

#include "backends/local/local_launcher.h"

namespace rlgen::backends {

// The tokenizer of a checkpoint folder: stop strings, and the highest token id. A folder without a
// tokenizer gives an empty text side. Errors: text::Tokenizer::load's, other than kNotFound.
StatusOr<TextSide> open_text_side(const std::string& folder);

}  // namespace rlgen::backends
