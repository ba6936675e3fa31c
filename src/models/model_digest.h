#pragma once

#include <optional>
#include <string>

#include "models/decoder.h"

namespace rlgen::models {

// Hex XXH3-128 over everything in the configuration that decides bits, and the names and shapes of
// the tensors: not over their types or bytes. Floats enter by their bits. `rounded` is the type
// that the weights were rounded to, where that changed some; another model, then.
std::string model_digest(const DecoderSpec& spec, const NameTable& table,
                         std::optional<DType> rounded = std::nullopt);

}  // namespace rlgen::models
