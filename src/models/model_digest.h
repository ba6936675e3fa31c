#pragma once

#include <string>

#include "models/decoder.h"

namespace rlgen::models {

// Hex XXH3-128 over everything in the configuration that decides bits, and the names and shapes of
// the tensors: not over their types or bytes. Floats enter by their bits.
std::string model_digest(const DecoderSpec& spec, const NameTable& table);

}  // namespace rlgen::models
