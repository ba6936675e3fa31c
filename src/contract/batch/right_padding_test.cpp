#include "contract/batch/right_padding.h"

#include <gmock/gmock.h>

#include <vector>

#include "contract/error_type.h"
#include "contract/host_tensor.h"

namespace rlgen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

HostTensor integers(DType dtype, const Shape& shape, const std::vector<int64_t>& values) {
  HostTensor tensor(dtype, shape);
  EXPECT_TRUE(write_integers(values, &tensor).ok());
  return tensor;
}

struct PaddedBatch {
  HostTensor ids;
  HostTensor lengths;

  Status verify(std::optional<int64_t> pad = 0) const {
    return verify_right_padding({{"input_ids", ids.view()}, {"input_lengths", lengths.view()}},
                                pad);
  }
};

PaddedBatch two_rows(const std::vector<int64_t>& ids, const std::vector<int64_t>& lengths) {
  return {integers(DType::kInt64, Shape{2, 4}, ids), HostTensor::of(lengths)};
}

TEST(RightPadding, T2_RightPaddedPasses) {
  EXPECT_TRUE(two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {3, 1}).verify().ok());
  EXPECT_TRUE(two_rows({1, 2, 3, 4, 0, 0, 0, 0}, {4, 0}).verify().ok());
  EXPECT_TRUE(two_rows({1, 9, 9, 9, 9, 9, 9, 9}, {2, 0}).verify(9).ok());
}

TEST(RightPadding, T2_LeftPaddedListsThePositionsOfTheFirstBadRow) {
  const Status error = two_rows({0, 0, 5, 6, 0, 7, 8, 9}, {2, 3}).verify();
  EXPECT_EQ(error_kind(error), ErrorKind::kValueError);
  EXPECT_THAT(message_of(error), AllOf(HasSubstr("row 0"), HasSubstr("[2, 3]")));
}

TEST(RightPadding, T2_AnotherPadValueIsAnError) {
  EXPECT_THAT(message_of(two_rows({1, 0, 0, 0, 1, 2, 3, 4}, {1, 4}).verify(9)),
              HasSubstr("[1, 2, 3]"));
}

TEST(RightPadding, T2_OtherShapesAreErrors) {
  PaddedBatch batch = two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {3, 1});
  batch.ids = integers(DType::kInt64, Shape{8}, {1, 2, 3, 0, 1, 0, 0, 0});
  EXPECT_THAT(message_of(batch.verify()), HasSubstr("[8]"));
  batch.ids = integers(DType::kInt64, Shape{2, 2, 2}, {1, 2, 3, 0, 1, 0, 0, 0});
  EXPECT_THAT(message_of(batch.verify()), HasSubstr("[2, 2, 2]"));
  batch = two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {3, 1, 2});
  EXPECT_THAT(message_of(batch.verify()), AllOf(HasSubstr("[3]"), HasSubstr("batch of 2")));
}

TEST(RightPadding, T2_LengthsLieWithinTheRow) {
  EXPECT_THAT(message_of(two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {3, 5}).verify()),
              AllOf(HasSubstr("input_lengths[1] is 5"), HasSubstr("4 positions")));
  EXPECT_THAT(message_of(two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {-1, 1}).verify()),
              HasSubstr("input_lengths[0] is -1"));
}

TEST(RightPadding, T2_KeysAreOneOfTwoPairsAndTheInputPairWins) {
  const PaddedBatch good = two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {3, 1});
  const PaddedBatch bad = two_rows({0, 2, 3, 4, 1, 0, 0, 0}, {3, 1});
  EXPECT_TRUE(
      verify_right_padding(
          {{"output_ids", good.ids.view()}, {"unpadded_sequence_lengths", good.lengths.view()}}, 0)
          .ok());
  EXPECT_TRUE(verify_right_padding({{"input_ids", good.ids.view()},
                                    {"input_lengths", good.lengths.view()},
                                    {"output_ids", bad.ids.view()},
                                    {"unpadded_sequence_lengths", bad.lengths.view()}},
                                   0)
                  .ok());
  const Status missing = verify_right_padding(
      {{"output_ids", good.ids.view()}, {"generation_lengths", good.lengths.view()}}, 0);
  EXPECT_EQ(error_kind(missing), ErrorKind::kValueError);
  EXPECT_THAT(message_of(missing),
              AllOf(HasSubstr("input_lengths"), HasSubstr("unpadded_sequence_lengths"),
                    HasSubstr("generation_lengths")));
}

TEST(RightPadding, T2_WithoutAPadIdItIsAnAssertion) {
  const Status error = two_rows({1, 2, 3, 0, 1, 0, 0, 0}, {3, 1}).verify(std::nullopt);
  EXPECT_EQ(error_kind(error), ErrorKind::kAssertionError);
  EXPECT_THAT(message_of(error), HasSubstr("tokenizer"));
}

TEST(RightPadding, T2_AnEmptyBatchPasses) {
  const PaddedBatch empty{HostTensor(DType::kInt64, Shape{0, 0}),
                          HostTensor(DType::kInt64, Shape{0})};
  EXPECT_TRUE(empty.verify().ok());
}

TEST(RightPadding, AnyIntegerTypeMayCarryIds) {
  const PaddedBatch narrow{integers(DType::kInt32, Shape{1, 3}, {1, 2, 0}),
                           integers(DType::kUInt8, Shape{1}, {2})};
  EXPECT_TRUE(narrow.verify().ok());
  const PaddedBatch real{HostTensor(DType::kFloat32, Shape{1, 3}),
                         integers(DType::kInt64, Shape{1}, {2})};
  EXPECT_THAT(message_of(real.verify()), HasSubstr("input_ids"));
}

}  // namespace
}  // namespace rlgen
