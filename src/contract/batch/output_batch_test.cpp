#include "contract/batch/output_batch.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "contract/batch/right_padding.h"
#include "contract/error_type.h"

namespace rlgen {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Tokens get the log-probabilities -1, -2, ... and the versions 7, 8, ...
Rollout rollout(const std::vector<int32_t>& prompt, const std::vector<int32_t>& tokens,
                FinishReason reason = FinishReason::kStop) {
  Rollout made;
  made.prompt_token_ids = prompt;
  for (const int32_t token : tokens) {
    const auto n = static_cast<int32_t>(made.tokens.size());
    made.tokens.push_back(
        {.token = token, .logprob = -1.0f - static_cast<float>(n), .version = 7 + n});
  }
  made.finish.reason = reason;
  made.sampling.seed = 5;
  return made;
}

std::vector<int64_t> numbers(const HostTensor& tensor) { return *read_integers(tensor.view()); }

std::vector<float> reals(const HostTensor& tensor) {
  const auto* data = tensor.as<float>();
  return {data, data + tensor.shape().num_elements()};
}

std::vector<bool> flags(const HostTensor& tensor) {
  const auto* data = tensor.as<bool>();
  return std::vector<bool>(data, data + tensor.shape().num_elements());
}

constexpr OutputLayout kPadNine{.pad_token_id = 9, .prompt_width = 3};

GenerationOutputSpec batch_of(const std::vector<Rollout>& rollouts,
                              const OutputLayout& layout = kPadNine) {
  auto batch = make_output_batch(rollouts, layout);
  EXPECT_TRUE(batch.ok()) << batch.status();
  return *std::move(batch);
}

TEST(OutputBatch, T3_GeneratedTokensFollowTheTruePrompt) {
  const auto batch = batch_of({rollout({1, 2, 3}, {5}), rollout({4}, {6, 7})});
  EXPECT_EQ(batch.output_ids.shape(), (Shape{2, 4}));
  EXPECT_EQ(batch.output_ids.dtype(), DType::kInt64);
  EXPECT_THAT(numbers(batch.output_ids), ElementsAre(1, 2, 3, 5, 4, 6, 7, 9));
  EXPECT_THAT(reals(batch.logprobs), ElementsAre(0, 0, 0, -1, 0, -1, -2, 0));
  EXPECT_THAT(numbers(batch.weight_versions), ElementsAre(-1, -1, -1, 7, -1, 7, 8, -1));
  EXPECT_THAT(numbers(batch.generation_lengths), ElementsAre(1, 2));
  EXPECT_THAT(numbers(batch.unpadded_sequence_lengths), ElementsAre(4, 3));
  EXPECT_THAT(numbers(batch.seeds), ElementsAre(5, 5));
  EXPECT_EQ(batch.logprobs_mode, "processed");
  EXPECT_FALSE(batch.routed_experts.present());
  EXPECT_TRUE(
      verify_right_padding({{"output_ids", batch.output_ids.view()},
                            {"unpadded_sequence_lengths", batch.unpadded_sequence_lengths.view()}},
                           9)
          .ok());
}

TEST(OutputBatch, T3_TheTypeOfTheIdsIsThatOfTheInput) {
  OutputLayout layout = kPadNine;
  layout.id_type = DType::kInt32;
  EXPECT_EQ(batch_of({rollout({1}, {2})}, layout).output_ids.dtype(), DType::kInt32);
  layout.id_type = DType::kInt8;
  EXPECT_THAT(
      std::string(make_output_batch(std::vector{rollout({1}, {300})}, layout).status().message()),
      HasSubstr("output_ids"));
}

TEST(OutputBatch, T3_AnEmptyBatchHasEmptyTensorsOfTheRightTypes) {
  const auto batch = batch_of({});
  EXPECT_EQ(batch.output_ids.shape(), (Shape{0, 0}));
  EXPECT_EQ(batch.logprobs.shape(), (Shape{0, 0}));
  EXPECT_EQ(batch.logprobs.dtype(), DType::kFloat32);
  EXPECT_EQ(batch.generation_lengths.shape(), Shape{0});
  EXPECT_EQ(batch.truncated.dtype(), DType::kBool);
}

TEST(OutputBatch, T10_TruncatedIsTheLengthLimitOnly) {
  Rollout full = rollout({1}, {}, FinishReason::kLength);
  full.finish.context_full = true;
  Rollout cut = rollout({1}, {2}, FinishReason::kLength);
  cut.finish.context_full = true;
  const auto batch =
      batch_of({rollout({1}, {2}, FinishReason::kLength), rollout({1}, {2}, FinishReason::kStop),
                rollout({1}, {2}, FinishReason::kAbort), full, cut});
  EXPECT_THAT(flags(batch.truncated), ElementsAre(true, false, false, false, true));
  EXPECT_THAT(flags(batch.context_full), ElementsAre(false, false, false, true, true));
  EXPECT_THAT(batch.finish_reasons, ElementsAre("length", "stop", "abort", "length", "length"));
  EXPECT_EQ(numbers(batch.generation_lengths)[3], 0);
}

TEST(OutputBatch, AFailedRowFailsTheBatchByName) {
  Rollout failed = rollout({1}, {}, FinishReason::kError);
  failed.finish.error = absl::InvalidArgumentError("bad");
  EXPECT_THAT(
      std::string(
          make_output_batch(std::vector{rollout({1}, {2}), failed}, kPadNine).status().message()),
      HasSubstr("row 1: bad"));
  Rollout nan = rollout({1}, {2});
  nan.tokens[0].logprob = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(absl::IsDataLoss(make_output_batch(std::vector{nan}, kPadNine).status()));
}

TEST(MergeOutput, T4_RowsKeepTheirOrderAndAreFilledUp) {
  const auto merged =
      merge_output_batches(std::vector{batch_of({rollout({1, 2, 3}, {5}), rollout({4}, {6, 7})}),
                                       batch_of({rollout({8, 1}, {2, 3, 4, 5})})},
                           9);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->output_ids.shape(), (Shape{3, 6}));
  EXPECT_THAT(numbers(merged->output_ids),
              ElementsAre(1, 2, 3, 5, 9, 9, 4, 6, 7, 9, 9, 9, 8, 1, 2, 3, 4, 5));
  EXPECT_THAT(reals(merged->logprobs),
              ElementsAre(0, 0, 0, -1, 0, 0, 0, -1, -2, 0, 0, 0, 0, 0, -1, -2, -3, -4));
  EXPECT_THAT(numbers(merged->weight_versions),
              ElementsAre(-1, -1, -1, 7, -1, -1, -1, 7, 8, -1, -1, -1, -1, -1, 7, 8, 9, 10));
  EXPECT_THAT(numbers(merged->unpadded_sequence_lengths), ElementsAre(4, 3, 6));
  EXPECT_THAT(merged->finish_reasons, ElementsAre("stop", "stop", "stop"));
  EXPECT_EQ(merged->logprobs_mode, "processed");
}

TEST(MergeOutput, T4_EmptyShardsCountForNothing) {
  const GenerationOutputSpec full = batch_of({rollout({1}, {2})});
  for (const auto& shards : {std::vector{full, batch_of({})}, std::vector{batch_of({}), full}}) {
    const auto merged = merge_output_batches(shards, 9);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(numbers(merged->output_ids), numbers(full.output_ids));
  }
  const auto none = merge_output_batches(std::vector{batch_of({}), batch_of({})}, 9);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->output_ids.shape(), (Shape{0, 0}));
}

TEST(MergeOutput, T4_RoutesAreFilledUpWithTheDummy) {
  const auto with_routes = [](Rollout row) {
    const RouteFacts facts{.layers = 1, .top_k = 3, .experts = 3};
    row.routes = empty_route_span(facts, 0);
    row.routes.ids.resize(3);
    OutputLayout layout;
    layout.routes = facts;
    return *make_output_batch(std::vector{row}, layout);
  };
  const auto merged = merge_output_batches(
      std::vector{with_routes(rollout({1}, {2})), with_routes(rollout({1}, {2, 3}))}, 0);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(numbers(merged->routed_experts), ElementsAre(0, 0, 0, 0, 1, 2, 0, 1, 2,  //
                                                           0, 0, 0, -1, -1, -1, 0, 1, 2));
}

TEST(MergeOutput, T5_AColumnThatSomeShardsLackIsNamedWithThem) {
  std::vector<GenerationOutputSpec> shards(4, batch_of({rollout({1}, {2})}));
  shards[1].truncated = HostTensor();
  shards[3].truncated = HostTensor();
  shards[2] = batch_of({});
  shards[2].truncated = HostTensor();
  const Status error = merge_output_batches(shards, 9).status();
  EXPECT_EQ(error_kind(error), ErrorKind::kKeyError);
  EXPECT_THAT(message_of(error), AllOf(HasSubstr("truncated"), HasSubstr("1, 3")));
}

TEST(MergeOutput, T5_RequiredColumnsAreListed) {
  GenerationOutputSpec batch = batch_of({rollout({1}, {2})});
  batch.logprobs = HostTensor();
  batch.generation_lengths = HostTensor();
  const Status error = merge_output_batches(std::vector{batch}, 9).status();
  EXPECT_EQ(error_kind(error), ErrorKind::kValueError);
  EXPECT_THAT(message_of(error), HasSubstr("generation_lengths, logprobs"));
  EXPECT_THAT(message_of(merge_output_batches({}, 9).status()), HasSubstr("output_ids"));
}

TEST(MergeOutput, ColumnsOfAnotherKindAreRefused) {
  std::vector<GenerationOutputSpec> shards(2, batch_of({rollout({1}, {2})}));
  shards[1].output_ids = HostTensor(DType::kInt32, Shape{1, 2});
  EXPECT_THAT(message_of(merge_output_batches(shards, 9).status()), HasSubstr("int32 [1, 2]"));
  shards[1] = shards[0];
  shards[1].logprobs_mode = "raw";
  EXPECT_THAT(message_of(merge_output_batches(shards, 9).status()), HasSubstr("raw in shard 1"));
}

TEST(ShardRows, T4_SharesAreConsecutiveAndTheLastMayBeEmpty) {
  const auto sizes = [](int64_t rows, int32_t shards) {
    std::vector<int64_t> result;
    int64_t next = 0;
    for (const RowRange& range : shard_rows(rows, shards)) {
      EXPECT_EQ(range.begin, next);
      next = range.end;
      result.push_back(range.size());
    }
    EXPECT_EQ(next, rows);
    return result;
  };
  EXPECT_THAT(sizes(5, 4), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(sizes(9, 4), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(sizes(1, 4), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(sizes(0, 2), ElementsAre(0, 0));
  EXPECT_THAT(sizes(7, 1), ElementsAre(7));
}

}  // namespace
}  // namespace rlgen
