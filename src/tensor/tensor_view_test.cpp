#include "tensor/tensor_view.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace rlgen {
namespace {

TEST(TensorView, DenseStridesAreRowMajor) {
  const Strides strides = dense_strides(Shape{2, 3, 4});
  EXPECT_EQ(strides[0], 12);
  EXPECT_EQ(strides[1], 4);
  EXPECT_EQ(strides[2], 1);
  EXPECT_EQ(strides[3], 0);
}

TEST(TensorView, EmptyShapesDoNotOverflow) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const TensorView view = dense_view(static_cast<const std::byte*>(nullptr), DType::kFloat32,
                                     Shape{0, kLargest, kLargest});
  EXPECT_TRUE(view.is_dense());
}

TEST(TensorView, AtPicksAPartOfTheOutermostAxis) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const MutableTensorView view =
      dense_view(reinterpret_cast<std::byte*>(values.data()), DType::kFloat32, Shape{2, 3, 4});
  const MutableTensorView row = view.at(1).at(2);
  EXPECT_EQ(row.shape, (Shape{4}));
  EXPECT_TRUE(row.is_dense());
  EXPECT_EQ(row.as<float>()[3], 23.0f);
  row.as<float>()[3] = -1.0f;
  EXPECT_EQ(values[23], -1.0f);
  EXPECT_EQ(row.at(0).shape.rank(), 0);
}

TEST(TensorView, SeesGaps) {
  TensorView view =
      dense_view(static_cast<const std::byte*>(nullptr), DType::kFloat32, Shape{2, 1, 4});
  EXPECT_TRUE(view.is_dense());
  view.strides[1] = 77;
  EXPECT_TRUE(view.is_dense());
  view.strides[0] = 8;
  EXPECT_FALSE(view.is_dense());
}

TEST(TensorView, MutableBecomesConst) {
  float value = 3.0f;
  const MutableTensorView view =
      dense_view(reinterpret_cast<std::byte*>(&value), DType::kFloat32, Shape{});
  const TensorView constant = view;
  EXPECT_EQ(*constant.as<const float>(), 3.0f);
}

}  // namespace
}  // namespace rlgen
