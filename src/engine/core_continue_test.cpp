#include <gtest/gtest.h>

#include "engine/core.h"
#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using Ids = std::vector<int32_t>;

TEST(EngineContinues, FB052_FB053_PromptLogprobsDoNotDependOnWhatRanBefore) {
  const Loaded loaded = load_checkpoint("llama");
  Bench bench(loaded, {.wanted = 5});
  SequenceId id = 1;
  for (const size_t length : {31u, 32u, 33u, 48u}) {
    std::vector<Outcome> outcomes;
    for (int i = 0; i < 2; ++i) {
      SequenceRequest request = make_request(id++, some_ids(length, 160, 7), 1);
      request.sampling.prompt_logprobs = 2;
      outcomes.push_back(bench.run(request));
      ASSERT_EQ(outcomes.back().prompt.size(), length - 1);
      for (size_t k = 0; k + 1 < length; ++k) {
        EXPECT_EQ(outcomes.back().prompt[k].token, request.prompt_token_ids[k + 1]);
        EXPECT_EQ(outcomes.back().prompt[k].top.size(), 2u);
        EXPECT_LT(outcomes.back().prompt[k].logprob, 0.0f);
      }
    }
    expect_same_bits(outcomes[0], outcomes[1]);
  }
}

TEST(EngineContinues, PromptLogprobsAreThoseOfScoringInRawMode) {
  const Loaded loaded = load_checkpoint("llama");
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(40, 160, 3), 2);
  request.sampling.prompt_logprobs = 3;
  const Outcome outcome = bench.run(request);
  SequenceRequest scored = make_request(
      2, Ids(request.prompt_token_ids.begin(), request.prompt_token_ids.begin() + 1), 2);
  scored.output_token_ids.assign(request.prompt_token_ids.begin() + 1,
                                 request.prompt_token_ids.end());
  scored.score_only = true;
  scored.sampling.logprobs_mode = LogprobsMode::kRaw;
  scored.sampling.logprobs = 3;
  scored.sampling.max_tokens = 39;
  const Outcome score = bench.run(scored);
  ASSERT_EQ(score.tokens.size(), outcome.prompt.size());
  for (size_t i = 0; i < score.tokens.size(); ++i) {
    EXPECT_EQ(score.tokens[i].logprob, outcome.prompt[i].logprob) << i;
  }
  EXPECT_EQ(score.finish->reason, FinishReason::kStop);
}

TEST(EngineContinues, ContinuedSequenceIsTheUninterruptedOne) {
  const Loaded loaded = load_checkpoint("llama");
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(20, 160, 4), 30, 11);
  request.sampling.repetition_penalty = 1.3f;
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.bad_words_ids = {{5, 6}, {9}};
  request.sampling.min_tokens = 12;
  const Outcome whole = bench.run(request);
  SequenceId id = 2;
  for (const size_t cut : {size_t{1}, size_t{7}, whole.tokens.size() - 1}) {
    const Ids made = whole.ids();
    SequenceRequest continued = request;
    continued.id = id++;
    continued.output_token_ids.assign(made.begin(), made.begin() + long(cut));
    SequenceRequest as_prompt = request;
    as_prompt.id = id++;
    as_prompt.prompt_token_ids.insert(as_prompt.prompt_token_ids.end(), made.begin(),
                                      made.begin() + long(cut));
    as_prompt.sampling.output_prefix_len = int32_t(cut);
    for (const SequenceRequest& again : {continued, as_prompt}) {
      const Outcome rest = bench.run(again);
      ASSERT_EQ(rest.tokens.size(), whole.tokens.size() - cut);
      for (size_t i = 0; i < rest.tokens.size(); ++i) {
        EXPECT_EQ(rest.tokens[i].token, whole.tokens[cut + i].token);
        EXPECT_EQ(rest.tokens[i].logprob, whole.tokens[cut + i].logprob);
      }
      EXPECT_EQ(rest.finish->reason, whole.finish->reason);
    }
  }
  SequenceRequest finished = request;
  finished.id = id++;
  finished.output_token_ids = whole.ids();
  const Outcome nothing = bench.run(finished);
  EXPECT_TRUE(nothing.tokens.empty());
  EXPECT_EQ(nothing.finish->reason, whole.finish->reason);
}

TEST(EngineContinues, StopStringAcrossTheBorderOfAContinuedSequence) {
  const Loaded loaded = load_checkpoint("table_chain");
  Bench bench(loaded, {.watchers = fake_watchers()});
  SequenceRequest request = greedy_request(1, {3}, 20);
  request.sampling.stop = {"4,5,6"};
  request.output_token_ids = {4, 5};
  EXPECT_EQ(bench.run(request).ids(), Ids{6});
  SequenceRequest as_prompt = greedy_request(2, {3, 4, 5}, 20);
  as_prompt.sampling.stop = {"4,5,6"};
  as_prompt.sampling.output_prefix_len = 2;
  EXPECT_EQ(bench.run(as_prompt).ids(), Ids{6});
}

TEST(EngineContinues, APromptThatFillsTheContextHasItsLogprobs) {
  const Ids prompt = some_ids(40, 160, 8);
  const auto run = [&](int32_t max_model_len, auto change) {
    const Loaded loaded = load_checkpoint("llama", max_model_len);
    Bench bench(loaded, {.wanted = 7});
    SequenceRequest request = make_request(1, prompt, 5);
    request.sampling.prompt_logprobs = 1;
    change(request);
    return bench.run(request);
  };
  const Outcome room = run(0, [](auto&) {});
  const Outcome full = run(40, [](auto&) {});
  EXPECT_EQ(full.finish->reason, FinishReason::kLength);
  EXPECT_TRUE(full.finish->context_full);
  const Outcome scored = run(40, [](auto& request) { request.score_only = true; });
  EXPECT_EQ(scored.finish->reason, FinishReason::kStop);
  const Outcome over = run(0, [](auto& request) { request.sampling.output_prefix_len = 6; });
  EXPECT_EQ(over.finish->reason, FinishReason::kLength);
  EXPECT_FALSE(over.finish->context_full);
  ASSERT_EQ(room.prompt.size(), prompt.size() - 1);
  for (const Outcome& other : {full, scored, over}) {
    EXPECT_TRUE(other.tokens.empty());
    ASSERT_EQ(other.prompt.size(), room.prompt.size());
    for (size_t i = 0; i < room.prompt.size(); ++i) {
      EXPECT_EQ(other.prompt[i].logprob, room.prompt[i].logprob) << i;
      EXPECT_EQ(other.prompt[i].top[0].token, room.prompt[i].top[0].token) << i;
    }
  }
}

TEST(EngineContinues, AScoreMayFillTheContext) {
  const Loaded loaded = load_checkpoint("llama", 48);
  Bench bench(loaded);
  SequenceRequest request = make_request(1, some_ids(20, 160, 9), 100);
  request.sampling.ignore_eos = true;
  const Outcome made = bench.run(request);
  ASSERT_EQ(made.tokens.size(), 28u);
  request.id = 2;
  request.score_only = true;
  request.output_token_ids = made.ids();
  const Outcome scored = bench.run(request);
  ASSERT_EQ(scored.tokens.size(), made.tokens.size());
  for (size_t i = 0; i < made.tokens.size(); ++i) {
    EXPECT_EQ(scored.tokens[i].logprob, made.tokens[i].logprob) << i;
  }
}

TEST(EngineContinues, EarlierOutputMayFillTheContext) {
  const Loaded loaded = load_checkpoint("table_chain", 32);
  Bench bench(loaded);
  SequenceRequest full = greedy_request(1, Ids(32, 3), 100);
  full.sampling.output_prefix_len = 4;
  const Outcome length = bench.run(full);
  EXPECT_TRUE(length.tokens.empty());
  EXPECT_EQ(length.finish->reason, FinishReason::kLength);
  EXPECT_TRUE(length.finish->context_full);
  full.id = 2;
  full.prompt_token_ids.back() = 2;
  const Outcome stopped = bench.run(full);
  EXPECT_TRUE(stopped.tokens.empty());
  EXPECT_EQ(stopped.finish->reason, FinishReason::kStop);
}

}  // namespace
}  // namespace rlgen::engine
