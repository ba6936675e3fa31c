#include <gtest/gtest.h>

#include "engine/core.h"
#include "engine/engine.h"
#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using Ids = std::vector<int32_t>;

constexpr int32_t kVocab = 160;

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

SequenceRequest scored(SequenceId id, const Ids& prompt, const Ids& output) {
  SequenceRequest request = make_request(id, prompt, 8);
  request.score_only = true;
  request.output_token_ids = output;
  return request;
}

class CacheTest : public ::testing::Test {
 protected:
  const Loaded loaded = load_checkpoint("llama");

  // What the request gives where nothing is cached.
  Outcome cold(const SequenceRequest& request) {
    return Bench(loaded, {.prefix_caching = false}).run(request);
  }
};

TEST_F(CacheTest, CountsHitsAndMissesOfEachRequest) {
  Bench bench(loaded);
  const Ids prompt = some_ids(50, kVocab, 1);
  EXPECT_EQ(bench.run(make_request(1, prompt, 4)).finish->cached_tokens, 0);
  EXPECT_EQ(bench.run(make_request(2, prompt, 4)).finish->cached_tokens, 48);
  const ShardMetrics metrics = bench.core->metrics();
  EXPECT_EQ(metrics.cache_hit_tokens, 48);
  EXPECT_EQ(metrics.cache_miss_tokens, 50 + 2);
  EXPECT_EQ(metrics.prompt_tokens, 50 + 2);
  EXPECT_EQ(metrics.cache_evictions, 0);
  EXPECT_EQ(metrics.kv_blocks_used, 0);
  EXPECT_EQ(metrics.kv_blocks_idle, 3);
}

TEST_F(CacheTest, TheWantedRowIsComputedEvenWhereEveryBlockIsThere) {
  Bench bench(loaded);
  const Ids prompt = some_ids(48, kVocab, 2);
  const Outcome first = bench.run(make_request(1, prompt, 4));
  const Outcome second = bench.run(make_request(2, prompt, 4));
  EXPECT_EQ(second.finish->cached_tokens, 32);
  expect_same_bits(first, second);
}

TEST_F(CacheTest, OffMeansNoBlockIsKept) {
  Bench bench(loaded, {.prefix_caching = false});
  const Ids prompt = some_ids(50, kVocab, 1);
  bench.run(make_request(1, prompt, 4));
  EXPECT_EQ(bench.run(make_request(2, prompt, 4)).finish->cached_tokens, 0);
  const ShardMetrics metrics = bench.core->metrics();
  EXPECT_EQ(metrics.cache_hit_tokens + metrics.cache_miss_tokens, 0);
  EXPECT_EQ(metrics.kv_blocks_idle, 0);
  EXPECT_EQ(metrics.prompt_tokens, 100);
}

TEST_F(CacheTest, OutputIsSharedTooForTheNextTurn) {
  Bench bench(loaded);
  const Ids prompt = some_ids(20, kVocab, 3);
  SequenceRequest request = make_request(1, prompt, 20);
  request.sampling.ignore_eos = true;
  const Ids made = bench.run(request).ids();
  ASSERT_EQ(made.size(), 20u);
  const SequenceRequest next =
      make_request(2, joined(joined(prompt, made), some_ids(9, kVocab, 4)), 5);
  const Outcome outcome = bench.run(next);
  EXPECT_EQ(outcome.finish->cached_tokens, 32);
  expect_same_bits(outcome, cold(next));
}

TEST_F(CacheTest, SamplesOfOnePromptPrefillItOnce) {
  for (const int32_t budget : {5, 16, 512}) {
    Bench bench(loaded, {.budget = budget});
    const Ids prompt = some_ids(70, kVocab, 5);
    for (SequenceId id = 0; id < 8; ++id) {
      SequenceRequest request = make_request(id, prompt, 6, 9);
      request.sample_index = int32_t(id);
      bench.core->submit(request);
    }
    bench.drain();
    // The whole prompt once, its last row by each other sample.
    EXPECT_EQ(bench.core->metrics().prompt_tokens, 70 + 7) << budget;
    EXPECT_EQ(bench.core->metrics().cache_hit_tokens, 7 * 69) << budget;
    for (SequenceId id = 0; id < 8; ++id) {
      EXPECT_EQ(bench.sink.get(id).finish->cached_tokens, id == 0 ? 0 : 69) << budget;
      SequenceRequest request = make_request(id, prompt, 6, 9);
      request.sample_index = int32_t(id);
      expect_same_bits(bench.sink.get(id), cold(request));
    }
  }
}

TEST_F(CacheTest, SamplesOfOnePromptEndInTheSmallestPoolToo) {
  const Ids prompt = some_ids(40, kVocab, 6);
  for (const int32_t blocks : {4, 5, 6, 9}) {
    Bench bench(loaded, {.budget = 7, .kv_blocks = blocks});
    for (SequenceId id = 0; id < 6; ++id) {
      SequenceRequest request = make_request(id, prompt, 20, 9);
      request.sample_index = int32_t(id);
      bench.core->submit(request);
    }
    for (int i = 0; i < 3000 && bench.core->step(Admission::kAll); ++i) {
      const Status audit = bench.core->scheduler().audit();
      ASSERT_TRUE(audit.ok()) << audit;
    }
    for (SequenceId id = 0; id < 6; ++id) {
      SequenceRequest request = make_request(id, prompt, 20, 9);
      request.sample_index = int32_t(id);
      ASSERT_TRUE(bench.sink.get(id).finish.has_value()) << blocks;
      expect_same_bits(bench.sink.get(id), cold(request));
    }
  }
}

TEST_F(CacheTest, FB052_PromptLogprobsTwiceAreTheSameAndComplete) {
  SequenceId id = 1;
  Bench bench(loaded);
  for (const size_t length : {31, 32, 33, 48}) {
    SequenceRequest request = make_request(id++, some_ids(length, kVocab, 7), 3);
    request.sampling.prompt_logprobs = 2;
    const Outcome first = bench.run(request);
    request.id = id++;
    const Outcome second = bench.run(request);
    EXPECT_EQ(second.prompt.size(), length - 1);
    expect_same_bits(first, second);
    expect_same_bits(first, cold(request));
    EXPECT_EQ(second.finish->cached_tokens, 0);
  }
}

TEST_F(CacheTest, FB053_ScoresDoNotDependOnWhatWasScoredBefore) {
  const Ids common = some_ids(32, kVocab, 8);
  const Ids output = some_ids(6, kVocab, 9);
  const SequenceRequest a = scored(0, joined(common, some_ids(9, kVocab, 10)), output);
  const SequenceRequest b = scored(1, joined(common, some_ids(20, kVocab, 11)), output);
  const std::vector<const SequenceRequest*> orders[] = {{&a, &b, &a}, {&b, &a, &b}, {&a, &a, &b}};
  for (const auto& order : orders) {
    Bench bench(loaded);
    SequenceId id = 100;
    for (const SequenceRequest* request : order) {
      SequenceRequest again = *request;
      again.id = id++;
      const Outcome outcome = bench.run(again);
      ASSERT_EQ(outcome.tokens.size(), output.size());
      expect_same_bits(outcome, cold(*request));
    }
    EXPECT_GT(bench.core->metrics().cache_hit_tokens, 0);
  }
}

TEST_F(CacheTest, HitsOfAScoreEndBeforeTheFirstWantedRow) {
  Bench bench(loaded);
  const Ids prompt = some_ids(33, kVocab, 12);
  const Ids output = some_ids(30, kVocab, 13);
  bench.run(scored(1, prompt, output));
  const Outcome second = bench.run(scored(2, prompt, output));
  EXPECT_EQ(second.finish->cached_tokens, 32);
  EXPECT_EQ(second.tokens.size(), 30u);
}

TEST_F(CacheTest, FB059_OtherSaltsShareNothing) {
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(50, kVocab, 14), 3);
  bench.run(request);
  for (const char* salt : {"x", "y", "-1"}) {
    ++request.id;
    request.cache_salt = salt;
    EXPECT_EQ(bench.run(request).finish->cached_tokens, 0) << salt;
    ++request.id;
    EXPECT_EQ(bench.run(request).finish->cached_tokens, 48) << salt;
  }
}

TEST_F(CacheTest, FB060_PromptsThatDifferInTheLastIdOfABlockDoNotShareIt) {
  Bench bench(loaded);
  const Ids prompt = some_ids(30, kVocab, 15);
  bench.run(make_request(1, prompt, 3));
  Ids other = prompt;
  other[15] = (other[15] + 1) % kVocab;
  const Outcome outcome = bench.run(make_request(2, other, 3));
  EXPECT_EQ(outcome.finish->cached_tokens, 0);
  expect_same_bits(outcome, cold(make_request(2, other, 3)));
}

TEST_F(CacheTest, FB060_EvictedBlocksAreRecomputedAndCorrect) {
  Bench bench(loaded, {.kv_blocks = 5});
  const SequenceRequest request = make_request(1, some_ids(60, kVocab, 16), 4);
  const Outcome first = bench.run(request);
  for (SequenceId id = 2; id < 6; ++id) {
    bench.run(make_request(id, some_ids(60, kVocab, uint32_t(100 + id)), 4));
  }
  EXPECT_GE(bench.core->metrics().cache_evictions, 9);
  SequenceRequest again = request;
  again.id = 9;
  const Outcome last = bench.run(again);
  EXPECT_EQ(last.finish->cached_tokens, 0);
  expect_same_bits(first, last);
  EXPECT_EQ(bench.core->metrics().preemptions, 0);
}

TEST_F(CacheTest, FB223_RequestsThatBypassTheCacheAreCounted) {
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(40, kVocab, 17), 2);
  bench.run(request);
  EXPECT_EQ(bench.core->metrics().cache_bypassed, 0);
  request.id = 2;
  request.sampling.prompt_logprobs = 0;
  bench.run(request);
  EXPECT_EQ(bench.core->metrics().cache_bypassed, 1);
}

TEST_F(CacheTest, AnUpdateMakesOldBlocksUnreachable) {
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(50, kVocab, 18), 3);
  const Outcome first = bench.run(request);
  bench.core->set_weights(loaded.other_weights(1, 2), KvPolicy::kRecompute);
  EXPECT_EQ(bench.core->metrics().kv_blocks_idle, 0);
  request.id = 2;
  const Outcome second = bench.run(request);
  EXPECT_EQ(second.finish->cached_tokens, 0);
  EXPECT_EQ(second.tokens[0].oldest_kv, 1);
  EXPECT_NE(digest_of_outcome(first), digest_of_outcome(second));
  request.id = 3;
  const Outcome third = bench.run(request);
  EXPECT_EQ(third.finish->cached_tokens, 48);
  EXPECT_EQ(third.tokens[0].oldest_kv, 1);
  expect_same_bits(second, third);
}

TEST_F(CacheTest, KvOfSeveralSetsOfWeightsIsNeverPublished) {
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(20, kVocab, 19), 40);
  request.sampling.ignore_eos = true;
  bench.core->submit(request);
  for (int i = 0; i < 3; ++i) bench.core->step(Admission::kAll);
  bench.core->set_weights(loaded.other_weights(1, 2), KvPolicy::kKeep);
  bench.drain();
  EXPECT_EQ(bench.sink.get(1).tokens.back().oldest_kv, 0);
  EXPECT_EQ(bench.core->metrics().kv_blocks_idle, 0);
  SequenceRequest whole =
      make_request(2, joined(request.prompt_token_ids, bench.sink.get(1).ids()), 3);
  EXPECT_EQ(bench.run(whole).finish->cached_tokens, 0);
}

// What was only taken from the cache when the flip comes is not kept across it.
TEST_F(CacheTest, BlocksTakenBeforeAFlipAreGivenBack) {
  Bench bench(loaded, {.budget = 1});
  const Ids prompt = some_ids(17, kVocab, 20);
  bench.run(make_request(1, prompt, 1));
  bench.core->submit(greedy_request(2, {3}, 20));
  bench.core->step(Admission::kAll);
  SequenceRequest late = make_request(3, prompt, 3);
  late.priority = 1;
  bench.core->submit(late);
  bench.core->step(Admission::kAll);
  ASSERT_EQ(bench.core->scheduler().find(3)->computed, 16);
  const auto other = loaded.other_weights(1, 2);
  bench.core->set_weights(other, KvPolicy::kKeep);
  bench.drain();
  EXPECT_EQ(bench.sink.get(3).tokens[0].oldest_kv, 1);
  Bench clean(loaded, {.prefix_caching = false});
  clean.core->set_weights(other, KvPolicy::kRecompute);
  expect_same_bits(bench.sink.get(3), clean.run(late));
}

TEST_F(CacheTest, FB227_PauseAndResumeKeepTheCache) {
  Collector sink;
  auto engine = *Engine::create(make_options(loaded, {}), make_parts(loaded, {}, &sink));
  ASSERT_TRUE(engine->set_weights(loaded.store->current(), KvPolicy::kRecompute).ok());
  SequenceRequest request = make_request(1, some_ids(50, kVocab, 21), 3);
  ASSERT_TRUE(engine->submit({request}).ok());
  sink.wait(1);
  for (const PauseMode mode : {PauseMode::kKeep, PauseMode::kRetract, PauseMode::kAbort}) {
    ASSERT_TRUE(engine->pause(mode).ok());
    ASSERT_TRUE(engine->resume().ok());
    ++request.id;
    ASSERT_TRUE(engine->submit({request}).ok());
    EXPECT_EQ(sink.wait(request.id).finish->cached_tokens, 48);
  }
  ASSERT_TRUE(engine->set_weights(loaded.other_weights(1, 2), KvPolicy::kRecompute).ok());
  ++request.id;
  ASSERT_TRUE(engine->submit({request}).ok());
  EXPECT_EQ(sink.wait(request.id).finish->cached_tokens, 0);
}

TEST_F(CacheTest, APreemptedSequenceFindsItsOwnBlocksAgain) {
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(40, kVocab, 22), 6);
  bench.core->submit(request);
  for (int i = 0; i < 3; ++i) bench.core->step(Admission::kAll);
  bench.core->retract_all();
  bench.drain();
  EXPECT_EQ(bench.core->metrics().cache_hit_tokens, 32);
  EXPECT_EQ(bench.sink.get(1).finish->cached_tokens, 0);  // of the first prefill
  expect_same_bits(bench.sink.get(1), cold(request));
}

}  // namespace
}  // namespace rlgen::engine
