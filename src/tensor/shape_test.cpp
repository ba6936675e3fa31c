#include "tensor/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace rlgen {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

absl::StatusCode code_of(const std::vector<std::int64_t>& dims) {
  return Shape::make(dims).status().code();
}

TEST(Shape, ScalarHasOneElement) {
  const Shape shape;
  EXPECT_EQ(shape.rank(), 0);
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_EQ(shape.to_string(), "[]");
  EXPECT_EQ(shape, *Shape::make({}));
}

TEST(Shape, KnowsItsDimensions) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape.num_elements(), 24);
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
  EXPECT_EQ(shape.dims().size(), 3u);
}

TEST(Shape, ComparesByDimensionsNotByCount) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{6}), (Shape{6, 1}));
}

TEST(Shape, RefusesBadDimensions) {
  EXPECT_EQ(code_of({2, -1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({kLargest, 2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({std::int64_t{1} << 32, std::int64_t{1} << 31}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(std::vector<std::int64_t>(9, 1)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(std::vector<std::int64_t>(8, 1)), absl::StatusCode::kOk);
}

TEST(Shape, ErrorShowsTheDimensions) {
  const auto status = Shape::make(std::vector<std::int64_t>{2, -1}).status();
  EXPECT_EQ(message_of(status), "shape [2, -1] has a negative dimension");
}

TEST(Shape, ZeroMakesEmptyWhateverTheRest) {
  const auto shape = Shape::make(std::vector<std::int64_t>{kLargest, kLargest, 0});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->num_elements(), 0);
  EXPECT_EQ(*num_bytes(*shape, DType::kFloat64), 0);
}

TEST(NumBytes, ChecksForOverflow) {
  EXPECT_EQ(*num_bytes(Shape{3, 5}, DType::kBFloat16), 30);
  EXPECT_EQ(*num_bytes(Shape{kLargest}, DType::kInt8), kLargest);
  EXPECT_EQ(num_bytes(Shape{kLargest}, DType::kFloat16).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rlgen
