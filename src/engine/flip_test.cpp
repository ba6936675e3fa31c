#include <gtest/gtest.h>

#include "engine/core.h"
#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// What a sequence gives that has `earlier` output and the given weights.
Outcome run_with(const Loaded& loaded, const std::shared_ptr<const models::WeightSet>& weights,
                 SequenceRequest request, const std::vector<int32_t>& earlier) {
  Bench bench(loaded);
  bench.core->set_weights(weights, KvPolicy::kRecompute);
  request.output_token_ids = earlier;
  return bench.run(request);
}

class FlipTest : public ::testing::Test {
 protected:
  const Loaded loaded = load_checkpoint("llama");
  const std::shared_ptr<const models::WeightSet> other = loaded.other_weights(5, 2);
  const SequenceRequest request = make_request(1, some_ids(20, 160, 6), 12, 3);

  void run_until_flip(Bench& bench, KvPolicy policy) {
    bench.core->submit(request);
    for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
    bench.core->set_weights(other, policy);
    bench.drain();
  }
};

TEST_F(FlipTest, RecomputeGoesOnAsIfTheNewWeightsHadReadEverything) {
  Bench bench(loaded);
  run_until_flip(bench, KvPolicy::kRecompute);
  const Outcome outcome = bench.sink.get(1);
  ASSERT_EQ(outcome.tokens.size(), 12u);
  const std::vector<int32_t> ids = outcome.ids();
  const Outcome rest = run_with(loaded, other, request, {ids.begin(), ids.begin() + 5});
  for (size_t i = 0; i < outcome.tokens.size(); ++i) {
    const TokenRecord& record = outcome.tokens[i];
    EXPECT_EQ(record.version, i < 5 ? 0 : 5);
    EXPECT_EQ(record.oldest_kv, i < 5 ? 0 : 5);
    if (i < 5) continue;
    EXPECT_EQ(record.logprob, rest.tokens[i - 5].logprob);
    EXPECT_EQ(record.token, rest.tokens[i - 5].token);
  }
}

TEST_F(FlipTest, KeepGoesOnWithOldKvAndMarksIt) {
  Bench bench(loaded);
  run_until_flip(bench, KvPolicy::kKeep);
  const Outcome outcome = bench.sink.get(1);
  ASSERT_EQ(outcome.tokens.size(), 12u);
  for (size_t i = 5; i < 12; ++i) {
    EXPECT_EQ(outcome.tokens[i].version, 5);
    EXPECT_EQ(outcome.tokens[i].oldest_kv, 0);
  }
  const std::vector<int32_t> ids = outcome.ids();
  const Outcome clean = run_with(loaded, other, request, {ids.begin(), ids.begin() + 5});
  EXPECT_NE(clean.tokens[0].logprob, outcome.tokens[5].logprob);
}

TEST_F(FlipTest, KeepStartsAnUnfinishedPrefillAgain) {
  Bench bench(loaded, {.budget = 6});
  bench.core->submit(request);
  bench.core->step(Admission::kAll);
  bench.core->set_weights(other, KvPolicy::kKeep);
  bench.drain();
  const Outcome clean = run_with(loaded, other, request, {});
  expect_same_bits(bench.sink.get(1), clean);
  EXPECT_EQ(bench.sink.get(1).tokens[0].oldest_kv, 5);
}

TEST_F(FlipTest, RebuildingKeptKvIsMarked) {
  Bench bench(loaded);
  bench.core->submit(request);
  for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
  bench.core->set_weights(other, KvPolicy::kKeep);
  bench.core->step(Admission::kAll);
  bench.core->retract_all();
  bench.drain();
  const Outcome outcome = bench.sink.get(1);
  EXPECT_EQ(outcome.tokens[5].oldest_kv, 0);
  EXPECT_EQ(outcome.tokens[6].oldest_kv, 5);
}

TEST_F(FlipTest, AbortEndsWhatRanAndLeavesTheQueue) {
  Bench bench(loaded, {.max_num_seqs = 1});
  SequenceRequest queued = request;
  queued.id = 2;
  bench.core->submit(request);
  bench.core->submit(queued);
  for (int i = 0; i < 3; ++i) bench.core->step(Admission::kAll);
  bench.core->set_weights(other, KvPolicy::kAbort);
  bench.drain();
  EXPECT_EQ(bench.sink.get(1).finish->reason, FinishReason::kAbort);
  EXPECT_EQ(bench.sink.get(1).tokens.size(), 3u);
  EXPECT_EQ(bench.sink.get(2).tokens.size(), 12u);
  EXPECT_EQ(bench.sink.get(2).tokens[0].version, 5);
}

TEST_F(FlipTest, BackToTheFirstWeightsGivesTheFirstBits) {
  Bench bench(loaded);
  const Outcome first = bench.run(request);
  SequenceRequest again = request;
  again.id = 2;
  bench.core->set_weights(other, KvPolicy::kRecompute);
  const Outcome second = bench.run(again);
  again.id = 3;
  bench.core->set_weights(loaded.store->current(), KvPolicy::kRecompute);
  expect_same_bits(first, bench.run(again));
  EXPECT_NE(digest_of_outcome(first), digest_of_outcome(second));
}

// Set by the trainer between admission and the first token, and between two tokens.
TEST_F(FlipTest, T32_EachTokenNamesTheLabelInForce) {
  const auto served = loaded.store->current();
  const auto renamed = [&](WeightVersion version) {
    return std::make_shared<models::WeightSet>(served->shared_table(), served->region(), version,
                                               served->serial());
  };
  Bench plain(loaded);
  const Outcome expected = plain.run(request);
  Bench bench(loaded);
  bench.core->submit(request);
  bench.core->relabel(renamed(3));
  for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
  bench.core->relabel(renamed(8));
  bench.drain();
  const Outcome outcome = bench.sink.get(1);
  expect_same_bits(outcome, expected);
  for (size_t i = 0; i < outcome.tokens.size(); ++i) {
    EXPECT_EQ(outcome.tokens[i].version, i < 5 ? 3 : 8);
    EXPECT_EQ(outcome.tokens[i].oldest_kv, i < 5 ? 3 : 8);  // not mixed: one set made it all
  }
}

TEST_F(FlipTest, ALabelDoesNotHideKeptKv) {
  Bench bench(loaded);
  bench.core->submit(request);
  for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
  bench.core->set_weights(other, KvPolicy::kKeep);
  bench.core->relabel(std::make_shared<models::WeightSet>(other->shared_table(), other->region(), 9,
                                                          other->serial()));
  bench.drain();
  EXPECT_EQ(bench.sink.get(1).tokens.back().version, 9);
  EXPECT_EQ(bench.sink.get(1).tokens.back().oldest_kv, 0);
}

// With the cache cleared after the flip, what goes on equals a fresh prefill under the new weights.
TEST_F(FlipTest, T24_ClearedKvIsRebuiltUnderTheNewWeights) {
  Bench bench(loaded);
  bench.core->submit(request);
  for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
  bench.core->set_weights(other, KvPolicy::kKeep);
  bench.core->clear_kv();
  bench.drain();
  const Outcome outcome = bench.sink.get(1);
  const std::vector<int32_t> ids = outcome.ids();
  const Outcome rest = run_with(loaded, other, request, {ids.begin(), ids.begin() + 5});
  ASSERT_EQ(outcome.tokens.size(), 12u);
  for (size_t i = 5; i < 12; ++i) {
    EXPECT_EQ(outcome.tokens[i].logprob, rest.tokens[i - 5].logprob);
    EXPECT_EQ(outcome.tokens[i].oldest_kv, 5);
  }
}

TEST_F(FlipTest, ClearedKvIsNotFoundAgain) {
  Bench bench(loaded);
  bench.run(request);
  bench.core->clear_kv();
  EXPECT_EQ(bench.core->metrics().kv_blocks_idle, 0);
  SequenceRequest again = request;
  again.id = 2;
  EXPECT_EQ(bench.run(again).finish->cached_tokens, 0);
  ASSERT_TRUE(bench.core->scheduler().audit().ok());
}

}  // namespace
}  // namespace rlgen::engine
