#include "engine/core.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::testing;  // NOLINT
using Ids = std::vector<int32_t>;

bool mentions(const Finish& finish, std::string_view text) {
  return message_of(finish.error).find(text) != std::string::npos;
}

// Says "x" once a sequence of tokens has come; stands for stop strings.
class SequenceWatcher final : public TokenWatcher {
 public:
  SequenceWatcher(Ids sought, std::string name)
      : sought_(std::move(sought)), name_(std::move(name)) {}
  std::optional<std::string> on_token(int32_t token, bool counts) override {
    seen_.push_back(token);
    const bool ends = seen_.size() >= sought_.size() &&
                      std::equal(sought_.rbegin(), sought_.rend(), seen_.rbegin());
    if (ends && counts) return name_;
    return std::nullopt;
  }

 private:
  Ids sought_;
  Ids seen_;
  std::string name_;
};

// A request's stop string "5,6" stands for those tokens.
TokenWatcherFactory fake_watchers() {
  return [](const SequenceRequest& request) -> StatusOr<std::unique_ptr<TokenWatcher>> {
    if (request.sampling.stop.empty()) return nullptr;
    if (request.sampling.stop[0] == "bad") return absl::InvalidArgumentError("sampling.stop: bad");
    Ids ids;
    for (const char c : request.sampling.stop[0]) {
      if (c != ',') ids.push_back(c - '0');
    }
    return std::make_unique<SequenceWatcher>(ids, request.sampling.stop[0]);
  };
}

TEST(EngineCore, FB013_LogprobsStayWithTheirTokensUpToTheEndOfSequence) {
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

TEST(EngineCore, FB017_StopTokenIdIsKeptWithItsLogprob) {
  const Loaded loaded = load_checkpoint("table_chain");
  Bench bench(loaded);
  SequenceRequest request = greedy_request(1, {3}, 20);
  request.sampling.stop_token_ids = {6};
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.ids(), (Ids{4, 5, 6}));
  EXPECT_EQ(std::get<int32_t>(outcome.finish->stop_reason), 6);
}

TEST(EngineCore, FB031_MinTokensHoldsEndOfSequenceBackExactly) {
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

TEST(EngineCore, FB032_MinTokensHoldsStopStringsBack) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  Bench bench(loaded, {.watchers = fake_watchers()});
  SequenceRequest request = greedy_request(1, {3}, 30);
  request.sampling.stop = {"6"};
  request.sampling.min_tokens = 10;
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.tokens.size(), 10u);
  EXPECT_EQ(std::get<std::string>(outcome.finish->stop_reason), "6");
}

TEST(EngineCore, FB033_MinTokensHoldsEveryEndOfSequenceIdBack) {
  const Loaded loaded = load_checkpoint("table_two_eos");
  Bench bench(loaded);
  SequenceRequest request = greedy_request(1, {3}, 30);
  request.sampling.min_tokens = 5;
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.ids(), (Ids{5, 5, 5, 5, 5, 9}));
}

TEST(EngineCore, FB035_LengthOnlyWhenNothingElseStopped) {
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

TEST(EngineCore, FB037_FB040_TheContextCutsOutputAndSaysSo) {
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

TEST(EngineCore, FB039_PromptBeyondTheContextIsNamedWithBothNumbers) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  Bench bench(loaded);
  for (const size_t length : {256u, 273u}) {
    const Outcome outcome = bench.run(make_request(length, Ids(length, 3), 5));
    EXPECT_EQ(outcome.finish->reason, FinishReason::kError);
    EXPECT_EQ(outcome.finish->error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(mentions(*outcome.finish, "context_length_exceeded"));
    EXPECT_TRUE(mentions(*outcome.finish, std::to_string(length)));
    EXPECT_TRUE(mentions(*outcome.finish, "256"));
  }
}

TEST(EngineCore, FB044_FB045_AnEmptyPromptFailsAlone) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  Bench bench(loaded);
  bench.core->submit(greedy_request(1, {1, 2}, 8));
  bench.core->step(Admission::kAll);
  bench.core->submit(greedy_request(2, {}, 8));
  bench.core->submit(greedy_request(3, {4}, 8));
  bench.drain();
  EXPECT_EQ(bench.sink.get(2).finish->reason, FinishReason::kError);
  EXPECT_TRUE(mentions(*bench.sink.get(2).finish, "prompt_token_ids is empty"));
  EXPECT_EQ(bench.sink.get(1).tokens.size(), 8u);
  EXPECT_EQ(bench.sink.get(3).tokens.size(), 8u);
}

TEST(EngineCore, FB047_StopAtTheFirstTokenManyTimes) {
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

TEST(EngineCore, FB015_NonFiniteLogitsFailThatRequestAlone) {
  const Loaded loaded = load_checkpoint("table_nan");
  for (const int64_t seed : {1, 2}) {
    Bench bench(loaded);
    SequenceRequest request = make_request(1, {0, 1}, 8, seed);
    request.sampling.temperature = 0.7f;
    const Outcome outcome = bench.run(request);
    EXPECT_EQ(outcome.finish->reason, FinishReason::kError);
    EXPECT_TRUE(mentions(*outcome.finish, "non-finite logits")) << outcome.finish->error;
    EXPECT_TRUE(outcome.tokens.empty());
  }
}

TEST(EngineCore, FB061_FB063_ASeedAloneDecides) {
  const Loaded loaded = load_checkpoint("llama");
  const Ids prompt = some_ids(20, 160, 1);
  Bench bench(loaded);
  const Outcome alone = bench.run(make_request(1, prompt, 20, 42));
  const Outcome again = bench.run(make_request(2, prompt, 20, 42));
  const Outcome other = bench.run(make_request(3, prompt, 20, 43));
  const Outcome third = bench.run(make_request(4, prompt, 20, 42));
  expect_same_bits(alone, again);
  expect_same_bits(alone, third);
  EXPECT_NE(alone.ids(), other.ids());
  bench.core->submit(make_request(5, prompt, 20, 42));
  bench.core->submit(make_request(6, some_ids(9, 160, 2), 20, 99));
  bench.drain();
  expect_same_bits(alone, bench.sink.get(5));
}

TEST(EngineCore, FB052_FB053_PromptLogprobsDoNotDependOnWhatRanBefore) {
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

TEST(EngineCore, PromptLogprobsAreThoseOfScoringInRawMode) {
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

TEST(EngineCore, ContinuedSequenceIsTheUninterruptedOne) {
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
    as_prompt.output_prefix_len = int32_t(cut);
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

TEST(EngineCore, StopStringAcrossTheBorderOfAContinuedSequence) {
  const Loaded loaded = load_checkpoint("table_chain");
  Bench bench(loaded, {.watchers = fake_watchers()});
  SequenceRequest request = greedy_request(1, {3}, 20);
  request.sampling.stop = {"4,5,6"};
  request.output_token_ids = {4, 5};
  EXPECT_EQ(bench.run(request).ids(), Ids{6});
  SequenceRequest as_prompt = greedy_request(2, {3, 4, 5}, 20);
  as_prompt.sampling.stop = {"4,5,6"};
  as_prompt.output_prefix_len = 2;
  EXPECT_EQ(bench.run(as_prompt).ids(), Ids{6});
}

TEST(EngineCore, BadRequestsNameTheField) {
  const Loaded loaded = load_checkpoint("llama");
  Bench bench(loaded, {.watchers = fake_watchers()});
  SequenceId id = 0;
  const auto expect_error = [&](auto change, std::string_view text) {
    SequenceRequest request = make_request(++id, {1, 2, 3}, 4);
    change(request);
    const Outcome outcome = bench.run(request);
    ASSERT_TRUE(outcome.finish) << text;
    EXPECT_EQ(outcome.finish->reason, FinishReason::kError) << text;
    EXPECT_TRUE(mentions(*outcome.finish, text)) << outcome.finish->error;
  };
  expect_error([](auto& r) { r.prompt_token_ids[1] = 160; }, "prompt_token_ids[1] is 160");
  expect_error([](auto& r) { r.prompt_token_ids[0] = -1; }, "prompt_token_ids[0] is -1");
  expect_error([](auto& r) { r.output_token_ids = {999}; }, "output_token_ids[0] is 999");
  expect_error([](auto& r) { r.score_only = true; }, "output_token_ids is empty");
  expect_error([](auto& r) { r.output_prefix_len = 4; }, "output_prefix_len is 4");
  expect_error([](auto& r) { r.adapter_slot = 0; }, "adapter_slot is 0");
  expect_error([](auto& r) { r.sample_index = -1; }, "sample_index is -1");
  expect_error([](auto& r) { r.sampling.seed.reset(); }, "sampling.seed");
  expect_error([](auto& r) { r.sampling.temperature = NAN; }, "temperature");
  expect_error([](auto& r) { r.sampling.max_tokens = 0; }, "max_tokens");
  expect_error([](auto& r) { r.sampling.stop_token_ids = {160}; }, "stop_token_ids");
  expect_error([](auto& r) { r.sampling.bad_words = {"x"}; }, "bad_words");
  expect_error([](auto& r) { r.sampling.stop = {"bad"}; }, "sampling.stop: bad");
  expect_error(
      [](auto& r) {
        r.score_only = true;
        r.output_token_ids.assign(126, 1);
      },
      "context_length_exceeded");
}

TEST(EngineCore, WhatCanNeverFitIsRefusedAtOnce) {
  const Loaded loaded = load_checkpoint("llama");
  Bench bench(loaded, {.kv_blocks = 3});
  const Outcome refused = bench.run(make_request(1, some_ids(40, 160, 1), 20));
  EXPECT_EQ(refused.finish->error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(mentions(*refused.finish, "needs 4 KV blocks of 16 keys and the pool has 3"));
  EXPECT_EQ(bench.run(make_request(2, some_ids(40, 160, 1), 9)).tokens.size(), 9u);
}

TEST(EngineCore, AScoredTokenThatCannotBeDrawnFailsAlone) {
  const Loaded loaded = load_checkpoint("table_descending");
  Bench bench(loaded);
  SequenceRequest request = make_request(1, {0}, 8);
  request.score_only = true;
  request.output_token_ids = {0, 3};
  request.sampling.top_k = 2;
  bench.core->submit(make_request(2, {0}, 8));
  const Outcome outcome = bench.run(request);
  EXPECT_EQ(outcome.finish->reason, FinishReason::kError);
  EXPECT_TRUE(mentions(*outcome.finish, "position 2")) << outcome.finish->error;
  EXPECT_EQ(bench.sink.get(2).tokens.size(), 8u);
}

TEST(EngineCore, AnErrorReadsAlikeWhateverTheSequenceIsCalled) {
  const Loaded loaded = load_checkpoint("table_nan");
  const auto error_of = [&](SequenceId id, std::vector<int32_t> prompt) {
    Bench bench(loaded);
    return bench.run(make_request(id, std::move(prompt), 8)).finish->error;
  };
  for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{0, 1}, {}}) {
    EXPECT_FALSE(error_of(1, prompt).ok());
    EXPECT_EQ(error_of(1, prompt), error_of(77, prompt));
  }
}

TEST(EngineCore, CancelEndsWithAbortWhereverTheSequenceIs) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  Bench bench(loaded, {.max_num_seqs = 1});
  bench.core->submit(greedy_request(1, {3}, 50));
  bench.core->submit(greedy_request(2, {3}, 50));
  bench.core->step(Admission::kAll);
  bench.core->cancel(2);
  bench.core->cancel(1);
  bench.core->cancel(7);
  bench.drain();
  EXPECT_EQ(bench.sink.get(1).finish->reason, FinishReason::kAbort);
  EXPECT_EQ(bench.sink.get(1).tokens.size(), 1u);
  EXPECT_EQ(bench.sink.get(2).finish->reason, FinishReason::kAbort);
  EXPECT_EQ(bench.core->metrics().kv_blocks_used, 0);
}

TEST(EngineCore, OptionsOutOfRangeAreNamed) {
  const Loaded loaded = load_checkpoint("llama");
  Collector sink;
  EngineOptions options = make_options(loaded, {});
  options.max_num_seqs = 0;
  Status status = EngineCore::create(options, make_parts(loaded, {}, &sink)).status();
  EXPECT_NE(message_of(status).find("max_num_seqs is 0"), std::string::npos) << status;
  options = make_options(loaded, {});
  options.max_num_batched_tokens = -3;
  status = EngineCore::create(options, make_parts(loaded, {}, &sink)).status();
  EXPECT_NE(message_of(status).find("max_num_batched_tokens is -3"), std::string::npos) << status;
}

TEST(EngineCore, WithoutWeightsRequestsAreRefusedByName) {
  const Loaded loaded = load_checkpoint("llama");
  Collector sink;
  auto core = *EngineCore::create(make_options(loaded, {}), make_parts(loaded, {}, &sink));
  core->submit(make_request(1, {1}, 4));
  EXPECT_FALSE(core->step(Admission::kAll));
  EXPECT_EQ(sink.get(1).finish->error.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace rlgen::engine
