#include "contract/host_tensor.h"

#include <gmock/gmock.h>

#include <cstdint>

namespace rlgen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostTensor, CopiesAViewWithStrides) {
  const std::vector<int32_t> data{0, 1, 2, 3, 4, 5};
  TensorView view =
      dense_view(reinterpret_cast<const std::byte*>(data.data()), DType::kInt32, Shape{2, 3});
  view.shape = Shape{3, 2};  // transposed
  view.strides = {1, 3};
  EXPECT_THAT(*read_integers(view), ElementsAre(0, 3, 1, 4, 2, 5));
  const HostTensor copy = HostTensor::copy_of(view);
  EXPECT_TRUE(copy.view().is_dense());
  EXPECT_THAT(*read_integers(copy.view()), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(HostTensor, EveryIntegerTypeRoundTrips) {
  for (const DType dtype : {DType::kUInt8, DType::kInt8, DType::kUInt16, DType::kInt16,
                            DType::kUInt32, DType::kInt32, DType::kUInt64, DType::kInt64}) {
    EXPECT_TRUE(is_integer(dtype));
    HostTensor tensor(dtype, Shape{3});
    const std::vector<int64_t> values{0, 1, 127};
    ASSERT_TRUE(write_integers(values, &tensor).ok());
    EXPECT_EQ(*read_integers(tensor.view()), values);
  }
  EXPECT_FALSE(is_integer(DType::kFloat32));
  EXPECT_FALSE(is_integer(DType::kBool));
}

TEST(HostTensor, WhatDoesNotFitIsNamed) {
  HostTensor bytes(DType::kInt8, Shape{1});
  EXPECT_THAT(std::string(write_integers(std::vector<int64_t>{128}, &bytes).message()),
              HasSubstr("128 does not fit int8"));
  HostTensor wide(DType::kUInt64, Shape{1});
  wide.as<uint64_t>()[0] = ~uint64_t{0};
  EXPECT_FALSE(read_integers(wide.view()).ok());
  HostTensor real(DType::kFloat32, Shape{1});
  EXPECT_FALSE(read_integers(real.view()).ok());
  EXPECT_FALSE(write_integers(std::vector<int64_t>{1}, &real).ok());
}

TEST(HostTensor, NothingIsNotPresent) {
  EXPECT_FALSE(HostTensor().present());
  EXPECT_TRUE(HostTensor(DType::kInt64, Shape{0}).present());
  EXPECT_EQ(HostTensor::of(std::vector<bool>{true, false}).as<bool>()[0], true);
}

}  // namespace
}  // namespace rlgen
