#pragma once

#include "base/status.h"
#include "models/safetensors.h"

namespace rlgen::models {

// True where some tensor's type has values that `to` has not. Widening loses nothing.
bool loses_bits(const SafetensorsFolder& tensors, DType to);

// kInvalidArgument, with the tensor and the value, for a finite weight that rounding to `to` would
// make infinite.
Status check_range(const SafetensorsFolder& tensors, DType to);

}  // namespace rlgen::models
