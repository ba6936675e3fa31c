#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rlgen {

enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

// Bytes of one element.
int size_of(DType dtype);

// True for the three types that weights may be stored in: float32, bfloat16, float16.
bool is_weight_type(DType dtype);

// "F32", "BF16", "I64", ... as in a safetensors header.
std::string_view safetensors_name(DType dtype);

// "float32", "bfloat16", "int64", ... as torch and config.json say it.
std::string_view torch_name(DType dtype);

// The type of that name; nothing for an unknown one. The torch form may begin with "torch.".
std::optional<DType> parse_safetensors_dtype(std::string_view name);
std::optional<DType> parse_torch_dtype(std::string_view name);

}  // namespace rlgen
