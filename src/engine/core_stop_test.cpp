#include <gtest/gtest.h>

#include <cmath>

#include "engine/core.h"
#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using Ids = std::vector<int32_t>;

TEST(EngineStops, FB013_LogprobsStayWithTheirTokensUpToTheEndOfSequence) {
  const Loaded loaded = load_checkpoint("table_chain");
  Bench bench(loaded);
  const Outcome outcome = bench.run(greedy_request(1, {3}, 20));
  EXPECT_EQ(outcome.ids(), (Ids{4, 5, 6, 2}));
  ASSERT_EQ(outcome.tokens.size(), 4u);
  const double others = 15.0;
  const double logits[] = {7, 6, 5, 4};
  for (int i = 0; i < 4; ++i) {
    const double expected = logits[i] - std::log(std::exp(logits[i]) + others);
    EXPECT_NEAR(outcome.tokens[size_t(i)].logprob, expected, 1e-5);
  }
  EXPECT_EQ(outcome.finish->reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(outcome.finish->stop_reason));
}

TEST(EngineStops, FB017_StopTokenIdIsKeptWithItsLogprob) {
  const Loaded loaded = load_checkpoint("table_chain");
  Bench bench(loaded);
  SequenceRequest request = greedy_request(1, {3}, 20);
  request.sampling.stop_token_ids = {6};
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.ids(), (Ids{4, 5, 6}));
  EXPECT_EQ(std::get<int32_t>(outcome.finish->stop_reason), 6);
}

TEST(EngineStops, FB031_MinTokensHoldsEndOfSequenceBackExactly) {
  const Loaded loaded = load_checkpoint("table_eager_eos");
  Bench bench(loaded);
  SequenceId id = 1;
  for (const auto& [min_tokens, expected] : {std::pair{4, 5u}, {0, 1u}, {1, 2u}}) {
    SequenceRequest request = greedy_request(id++, {3, 4}, 20);
    request.sampling.min_tokens = min_tokens;
    const Outcome outcome = bench.run(request);
    EXPECT_EQ(outcome.tokens.size(), expected) << min_tokens;
    EXPECT_EQ(outcome.ids().back(), 2);
    EXPECT_EQ(outcome.finish->reason, FinishReason::kStop);
  }
}

TEST(EngineStops, FB032_MinTokensHoldsStopStringsBack) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  Bench bench(loaded, {.watchers = fake_watchers()});
  SequenceRequest request = greedy_request(1, {3}, 30);
  request.sampling.stop = {"6"};
  request.sampling.min_tokens = 10;
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.tokens.size(), 10u);
  EXPECT_EQ(std::get<std::string>(outcome.finish->stop_reason), "6");
}

TEST(EngineStops, FB033_MinTokensHoldsEveryEndOfSequenceIdBack) {
  const Loaded loaded = load_checkpoint("table_two_eos");
  Bench bench(loaded);
  SequenceRequest request = greedy_request(1, {3}, 30);
  request.sampling.min_tokens = 5;
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.ids(), (Ids{5, 5, 5, 5, 5, 9}));
}

TEST(EngineStops, FB035_LengthOnlyWhenNothingElseStopped) {
  const Loaded loaded = load_checkpoint("table_chain");
  Bench bench(loaded, {.watchers = fake_watchers()});
  const Outcome eos_last = bench.run(greedy_request(1, {3}, 4));
  EXPECT_EQ(eos_last.finish->reason, FinishReason::kStop);
  SequenceRequest never = greedy_request(2, {3}, 4);
  never.sampling.ignore_eos = true;
  never.sampling.logit_bias = {{2, -100.0f}};
  const Outcome length = bench.run(never);
  EXPECT_EQ(length.finish->reason, FinishReason::kLength);
  EXPECT_FALSE(length.finish->context_full);
  EXPECT_EQ(length.tokens.size(), 4u);
  SequenceRequest stopped = greedy_request(3, {3}, 3);
  stopped.sampling.stop = {"5,6"};
  EXPECT_EQ(bench.run(stopped).finish->reason, FinishReason::kStop);
}

TEST(EngineStops, FB037_FB040_TheContextCutsOutputAndSaysSo) {
  const Loaded loaded = load_checkpoint("table_prefers_six", 100);
  Bench bench(loaded);
  const Outcome ten = bench.run(greedy_request(1, Ids(90, 3), 20));
  EXPECT_EQ(ten.tokens.size(), 10u);
  EXPECT_EQ(ten.finish->reason, FinishReason::kLength);
  EXPECT_TRUE(ten.finish->context_full);
  const Outcome one = bench.run(greedy_request(2, Ids(99, 3), 512));
  EXPECT_EQ(one.tokens.size(), 1u);
  EXPECT_TRUE(one.finish->context_full);
  SequenceRequest unset = greedy_request(3, Ids(95, 3), 1);
  unset.sampling.max_tokens.reset();
  EXPECT_EQ(bench.run(unset).tokens.size(), 5u);
}

TEST(EngineStops, FB047_StopAtTheFirstTokenManyTimes) {
  const Loaded loaded = load_checkpoint("table_eager_eos");
  Bench bench(loaded);
  for (SequenceId id = 0; id < 1000; ++id) {
    SequenceRequest request = greedy_request(id, {3, 4}, 20);
    if (id % 3 == 1) request.output_token_ids = {5};
    if (id % 3 == 2) request.sample_index = 3;
    bench.core->submit(request);
    if (id % 7 == 0) bench.core->step(Admission::kAll);
  }
  bench.drain();
  for (SequenceId id = 0; id < 1000; ++id) {
    EXPECT_EQ(bench.sink.get(id).ids(), Ids{2});
    EXPECT_EQ(bench.sink.get(id).finish->reason, FinishReason::kStop);
  }
}

}  // namespace
}  // namespace rlgen::engine
