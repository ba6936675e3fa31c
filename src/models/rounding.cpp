#include "models/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/weights.h"
#include "tensor/bfloat16.h"

namespace rlgen::models {
namespace {

bool loses_bits(DType from, DType to) { return from != to && to != DType::kFloat32; }

template <typename Bits>
Bits load(const std::byte* source) {
  Bits bits;
  std::memcpy(&bits, source, sizeof bits);
  return bits;
}

float value_at(const StoredTensor& tensor, size_t index) {
  const std::byte* const source = tensor.bytes.data() + index * size_t(size_of(tensor.dtype));
  if (tensor.dtype == DType::kFloat32) return load<float>(source);
  const auto bits = load<uint16_t>(source);
  return tensor.dtype == DType::kBFloat16 ? float_from_bf16(bits) : float_from_f16(bits);
}

bool overflows(float value, DType to) {
  if (!std::isfinite(value)) return false;
  return std::isinf(to == DType::kBFloat16 ? float_from_bf16(bf16_from_float(value))
                                           : float_from_f16(f16_from_float(value)));
}

}  // namespace

bool loses_bits(const SafetensorsFolder& tensors, DType to) {
  return std::ranges::any_of(tensors.tensors(), [&](const StoredTensor& tensor) {
    return !is_ignorable_tensor(tensor.name) && loses_bits(tensor.dtype, to);
  });
}

Status check_range(const SafetensorsFolder& tensors, DType to) {
  for (const StoredTensor& tensor : tensors.tensors()) {
    if (is_ignorable_tensor(tensor.name) || !loses_bits(tensor.dtype, to)) continue;
    const auto count = size_t(tensor.shape.num_elements());
    for (size_t i = 0; i < count; ++i) {
      const float value = value_at(tensor, i);
      if (!overflows(value, to)) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: tensor \"{}\" holds {}, which {} cannot; choose another type for the weights",
          tensor.file, tensor.name, value, torch_name(to)));
    }
  }
  return absl::OkStatus();
}

}  // namespace rlgen::models
