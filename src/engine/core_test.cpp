#include "engine/core.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using Ids = std::vector<int32_t>;

bool mentions(const Finish& finish, std::string_view text) {
  return message_of(finish.error).find(text) != std::string::npos;
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
  expect_error([](auto& r) { r.sampling.output_prefix_len = 4; },
               "sampling: output_prefix_len is 4; it must be at most 3");
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

TEST(EngineCore, ProgressGrowsWithinAStep) {
  const Loaded loaded = load_checkpoint("llama");
  Bench bench(loaded);
  bench.core->submit(make_request(1, some_ids(20, 160, 1), 4));
  EXPECT_EQ(bench.core->progress(), 0);
  bench.core->step(Admission::kAll);
  EXPECT_EQ(bench.core->progress(), loaded.model.decoder.spec.layers);
  EXPECT_EQ(bench.core->steps(), 1);
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
