#include <gtest/gtest.h>

#include "engine/core.h"
#include "engine/test_engine.h"

// The tail of a prompt, copied from a running sequence of the same prompt.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

class TailTest : public ::testing::Test {
 protected:
  const Loaded loaded = load_checkpoint("llama");
  const std::vector<int32_t> prompt = some_ids(43, 160, 31);  // two blocks, 10 ids and the last

  SequenceRequest sample(SequenceId id) const {
    SequenceRequest request = make_request(id, prompt, 8, 5);
    request.sampling.ignore_eos = true;
    request.sample_index = int32_t(id);
    return request;
  }

  Outcome cold(const SequenceRequest& request) const {
    return Bench(loaded, {.prefix_caching = false}).run(request);
  }
};

TEST_F(TailTest, ScoresOfOnePromptShareItToo) {
  Bench bench(loaded);
  const Outcome made = cold(sample(1));
  for (SequenceId id = 1; id < 4; ++id) {
    SequenceRequest scored = score_request(id, sample(id), made);
    bench.core->submit(scored);
  }
  bench.drain();
  for (SequenceId id = 1; id < 4; ++id) {
    EXPECT_EQ(bench.sink.get(id).finish->cached_tokens, id == 1 ? 0 : 42);
    expect_same_bits(bench.sink.get(id), bench.sink.get(1));
  }
}

TEST_F(TailTest, APreemptedSampleFindsItsPromptWithAnother) {
  Bench bench(loaded);
  for (SequenceId id = 1; id < 3; ++id) bench.core->submit(sample(id));
  for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
  bench.core->retract_all();
  bench.drain();
  // The second prefill of each has 42 rows of the prompt and then the tokens made: the first takes
  // two blocks and computes the tail, the second copies it.
  EXPECT_EQ(bench.core->metrics().cache_hit_tokens, 42 + 32 + 42);
  for (SequenceId id = 1; id < 3; ++id) expect_same_bits(bench.sink.get(id), cold(sample(id)));
}

TEST_F(TailTest, WantedRowsOfThePromptAreComputed) {
  Bench bench(loaded);
  bench.core->submit(sample(1));
  bench.core->step(Admission::kAll);
  SequenceRequest asked = sample(2);
  asked.sampling.prompt_logprobs = 1;
  bench.core->submit(asked);
  bench.drain();
  EXPECT_EQ(bench.sink.get(2).finish->cached_tokens, 0);
  expect_same_bits(bench.sink.get(2), cold(asked));
}

// A prompt of two blocks and more, and one shorter than a block, which has no parent to differ by.
TEST_F(TailTest, KeptKvIsNotCopiedAndRebuiltKvIs) {
  const auto other = loaded.other_weights(1, 2);
  for (const int32_t length : {43, 12}) {
    SequenceRequest late = sample(2);
    late.prompt_token_ids.resize(size_t(length));
    Bench clean(loaded, {.prefix_caching = false});
    clean.core->set_weights(other, KvPolicy::kRecompute);
    const Outcome wanted = clean.run(late);
    for (const KvPolicy policy : {KvPolicy::kKeep, KvPolicy::kRecompute}) {
      Bench bench(loaded);
      SequenceRequest first = sample(1);
      first.prompt_token_ids = late.prompt_token_ids;
      bench.core->submit(first);
      for (int i = 0; i < 3; ++i) bench.core->step(Admission::kAll);
      bench.core->set_weights(other, policy);
      bench.core->step(Admission::kAll);
      bench.core->submit(late);
      bench.drain();
      EXPECT_EQ(bench.sink.get(2).finish->cached_tokens,
                policy == KvPolicy::kKeep ? 0 : length - 1);
      expect_same_bits(bench.sink.get(2), wanted);
    }
  }
}

// The budget goes to the first, so that the second has copied and not computed when the flip comes.
TEST_F(TailTest, ATailCopiedBeforeAFlipIsGivenBack) {
  const auto other = loaded.other_weights(1, 2);
  Bench bench(loaded, {.budget = 1});
  bench.core->submit(sample(1));
  for (int i = 0; i < 44; ++i) bench.core->step(Admission::kAll);
  bench.core->submit(sample(2));
  bench.core->step(Admission::kAll);
  ASSERT_EQ(bench.core->scheduler().find(2)->computed, 42);
  bench.core->set_weights(other, KvPolicy::kKeep);
  bench.drain();
  EXPECT_EQ(bench.sink.get(2).tokens[0].oldest_kv, 1);
  Bench clean(loaded, {.prefix_caching = false});
  clean.core->set_weights(other, KvPolicy::kRecompute);
  expect_same_bits(bench.sink.get(2), clean.run(sample(2)));
}

}  // namespace
}  // namespace rlgen::engine
