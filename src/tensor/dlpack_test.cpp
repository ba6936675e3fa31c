#include "tensor/dlpack.h"

#include <gtest/gtest.h>

#include <vector>

namespace rlgen {
namespace {

DLTensor float_tensor(std::vector<float>* values, std::vector<std::int64_t>* shape) {
  DLTensor tensor{};
  tensor.data = values->data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int>(shape->size());
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape->data();
  return tensor;
}

TEST(Dlpack, ViewOfADenseTensorIsWritable) {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape = {2, 3};
  const auto view = view_of_dlpack(float_tensor(&values, &shape));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(view->is_dense());
  EXPECT_EQ(view->shape, (Shape{2, 3}));
  view->at(1).as<float>()[2] = 9;
  EXPECT_EQ(values[5], 9);
}

TEST(Dlpack, StridesAndOffsetCount) {
  std::vector<float> values = {0, 1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> shape = {3, 2};
  std::vector<std::int64_t> strides = {1, 3};
  DLTensor tensor = float_tensor(&values, &shape);
  tensor.strides = strides.data();
  tensor.byte_offset = sizeof(float);
  const auto view = view_of_dlpack(tensor);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_FALSE(view->is_dense());
  EXPECT_EQ(*view->at(2).at(1).as<float>(), 6);
}

TEST(Dlpack, RefusesWhatItCannotRead) {
  std::vector<float> values = {0};
  std::vector<std::int64_t> shape = {1};
  DLTensor tensor = float_tensor(&values, &shape);
  tensor.device.device_type = kDLCUDA;
  EXPECT_EQ(view_of_dlpack(tensor).status().code(), absl::StatusCode::kUnimplemented);
  tensor = float_tensor(&values, &shape);
  tensor.dtype = {kDLComplex, 64, 1};
  EXPECT_EQ(view_of_dlpack(tensor).status().code(), absl::StatusCode::kUnimplemented);
  tensor.dtype = {kDLFloat, 32, 4};
  EXPECT_EQ(view_of_dlpack(tensor).status().code(), absl::StatusCode::kUnimplemented);
  tensor = float_tensor(&values, &shape);
  tensor.data = nullptr;
  EXPECT_EQ(view_of_dlpack(tensor).status().code(), absl::StatusCode::kInvalidArgument);
  shape[0] = -1;
  EXPECT_EQ(view_of_dlpack(float_tensor(&values, &shape)).status().code(),
            absl::StatusCode::kInvalidArgument);
  tensor = float_tensor(&values, &shape);
  tensor.shape = nullptr;
  EXPECT_EQ(view_of_dlpack(tensor).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Dlpack, EveryTypeComesBack) {
  std::vector<std::int64_t> values(4);
  int supported = 0;
  for (int i = 0; i <= static_cast<int>(DType::kFloat64); ++i) {
    const auto dtype = static_cast<DType>(i);
    const TensorView view =
        dense_view(reinterpret_cast<const std::byte*>(values.data()), dtype, Shape{2, 2});
    const auto out = to_dlpack(view, nullptr);
    if (!out.ok()) {
      EXPECT_EQ(out.status().code(), absl::StatusCode::kUnimplemented);
      continue;
    }
    ++supported;
    const auto back = view_of_dlpack((*out)->dl_tensor);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->dtype, dtype);
    EXPECT_EQ(back->shape, view.shape);
    EXPECT_EQ(back->data, view.data);
  }
  EXPECT_EQ(supported, 12);
}

TEST(Dlpack, OwnerLivesUntilTheReceiverLetsGo) {
  const auto owner = std::make_shared<std::vector<float>>(3, 1.0f);
  const auto view =
      dense_view(reinterpret_cast<const std::byte*>(owner->data()), DType::kFloat32, Shape{3});
  DLManagedTensor* taken = to_dlpack(view, owner)->release();
  EXPECT_EQ(owner.use_count(), 2);
  taken->deleter(taken);
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace rlgen
