#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace rlgen {
namespace {

TEST(DType, EveryNameIsParsedBack) {
  for (int i = 0; i <= static_cast<int>(DType::kFloat64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_safetensors_dtype(safetensors_name(dtype)), dtype);
    EXPECT_EQ(parse_torch_dtype(torch_name(dtype)), dtype);
    EXPECT_EQ(parse_torch_dtype("torch." + std::string(torch_name(dtype))), dtype);
  }
}

TEST(DType, WeightTypes) {
  EXPECT_EQ(parse_safetensors_dtype("BF16"), DType::kBFloat16);
  EXPECT_EQ(size_of(DType::kBFloat16), 2);
  EXPECT_EQ(size_of(DType::kFloat32), 4);
  EXPECT_TRUE(is_weight_type(DType::kFloat16));
  EXPECT_FALSE(is_weight_type(DType::kFloat64));
  EXPECT_FALSE(is_weight_type(DType::kFloat8E4M3));
}

TEST(DType, UnknownNamesGiveNothing) {
  EXPECT_EQ(parse_safetensors_dtype("f32"), std::nullopt);
  EXPECT_EQ(parse_safetensors_dtype(""), std::nullopt);
  EXPECT_EQ(parse_torch_dtype("half"), std::nullopt);
  EXPECT_EQ(parse_torch_dtype("torch."), std::nullopt);
}

}  // namespace
}  // namespace rlgen
