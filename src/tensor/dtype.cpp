#include "tensor/dtype.h"

#include <array>

namespace rlgen {
namespace {

struct TypeRow {
  DType dtype;
  int size;
  std::string_view safetensors;
  std::string_view torch;
};

constexpr std::array<TypeRow, 15> kTypeRows = {{
    {DType::kBool, 1, "BOOL", "bool"},
    {DType::kUInt8, 1, "U8", "uint8"},
    {DType::kInt8, 1, "I8", "int8"},
    {DType::kUInt16, 2, "U16", "uint16"},
    {DType::kInt16, 2, "I16", "int16"},
    {DType::kUInt32, 4, "U32", "uint32"},
    {DType::kInt32, 4, "I32", "int32"},
    {DType::kUInt64, 8, "U64", "uint64"},
    {DType::kInt64, 8, "I64", "int64"},
    {DType::kFloat8E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {DType::kFloat8E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {DType::kFloat16, 2, "F16", "float16"},
    {DType::kBFloat16, 2, "BF16", "bfloat16"},
    {DType::kFloat32, 4, "F32", "float32"},
    {DType::kFloat64, 8, "F64", "float64"},
}};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kTypeRows.size(); ++i) {
    if (static_cast<std::size_t>(kTypeRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const TypeRow& row_of(DType dtype) { return kTypeRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

int size_of(DType dtype) { return row_of(dtype).size; }

bool is_weight_type(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

std::string_view safetensors_name(DType dtype) { return row_of(dtype).safetensors; }

std::string_view torch_name(DType dtype) { return row_of(dtype).torch; }

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const TypeRow& row : kTypeRows) {
    if (row.safetensors == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> parse_torch_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const TypeRow& row : kTypeRows) {
    if (row.torch == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace rlgen
