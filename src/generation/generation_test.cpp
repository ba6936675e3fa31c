#include "generation/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "generation/error_code.h"
#include "generation/generation_fixture.h"

namespace rlgen::generation {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(GenerationTest, SamplesGoToOneShard) {
  const auto generation = start();
  const auto rollouts = roll(*generation, request({.seed = 9, .n = 3}), 3);
  ASSERT_EQ(rollouts.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rollouts[static_cast<size_t>(i)].sample, i);
    EXPECT_EQ(rollouts[static_cast<size_t>(i)].tokens[0].token, 100 + i);
  }
  const auto seen = state_->seen();
  EXPECT_EQ(seen[2].sample_index, 2);
  EXPECT_EQ(seen[1].sampling.seed, 9);
  EXPECT_EQ(generation->in_flight(), 0);
  EXPECT_EQ(rollouts[0].numerics, generation->info().numerics.to_string());
  EXPECT_EQ(rollouts[2].shard, 0);
}

// What decides about order and sharing stands in every sequence, of samples and of scores.
TEST_F(GenerationTest, PriorityAndSaltReachTheShard) {
  const auto generation = start();
  GenerationRequest asked = request({.n = 2});
  asked.priority = -7;
  asked.cache_salt = "tenant";
  roll(*generation, asked, 2);
  asked.sampling.n = 1;
  asked.score_token_ids = {{3}};
  roll(*generation, asked, 1);
  roll(*generation, request(), 1);
  const auto seen = state_->seen();
  ASSERT_EQ(seen.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seen[i].priority, -7);
    EXPECT_EQ(seen[i].cache_salt, "tenant");
  }
  EXPECT_EQ(seen[3].priority, 0);
  EXPECT_EQ(seen[3].cache_salt, "");
}

TEST_F(GenerationTest, OnlyTheSamplesAskedFor) {
  const auto generation = start();
  GenerationRequest some = request({.n = 4});
  some.samples = {1, 3};
  const auto rollouts = roll(*generation, some, 2);
  EXPECT_EQ(rollouts[0].sample, 1);
  EXPECT_EQ(rollouts[1].sample, 3);
}

TEST_F(GenerationTest, FB061_ASeedIsDrawnAndReturned) {
  const auto generation = start();
  const auto first = roll(*generation, request(), 1);
  const auto second = roll(*generation, request(), 1);
  ASSERT_TRUE(first[0].sampling.seed && second[0].sampling.seed);
  EXPECT_NE(*first[0].sampling.seed, *second[0].sampling.seed);
  EXPECT_EQ(state_->seen()[0].sampling.seed, first[0].sampling.seed);
}

TEST_F(GenerationTest, FB024_FB028_BadWordsBecomeIdsForEverySample) {
  GenerationOptions options;
  options.bad_words = [](const std::string& word) -> StatusOr<std::vector<std::vector<int32_t>>> {
    EXPECT_EQ(word, "London");
    return std::vector<std::vector<int32_t>>{{21}, {39}};
  };
  const auto generation = start(std::move(options));
  const auto rollouts = roll(
      *generation, request({.bad_words = {"London"}, .bad_words_ids = {{39}, {5}}, .n = 4}), 4);
  const std::vector<std::vector<int32_t>> expected{{39}, {5}, {21}};
  for (const SequenceRequest& seen : state_->seen()) {
    EXPECT_EQ(seen.sampling.bad_words_ids, expected);
    EXPECT_TRUE(seen.sampling.bad_words.empty());
  }
  EXPECT_EQ(rollouts[0].sampling.bad_words_ids, expected);
  EXPECT_THAT(rollouts[0].sampling.bad_words, ElementsAre("London"));
}

TEST_F(GenerationTest, BadWordsWithoutATokenizerAreRefused) {
  const auto generation = start();
  const auto ids = generation->submit(request({.bad_words = {"x"}}), {});
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GenerationTest, WrongRequestsNameTheField) {
  const auto generation = start();
  const auto error_of = [&](GenerationRequest wrong) {
    const auto ids = generation->submit(std::move(wrong), {});
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    return message_of(ids.status());
  };
  GenerationRequest wrong = request();
  wrong.prompt_token_ids = {1, 200};
  EXPECT_THAT(error_of(wrong), HasSubstr("prompt_token_ids[1] is 200"));
  wrong.prompt_token_ids = {};
  EXPECT_THAT(error_of(wrong), HasSubstr("prompt is empty"));
  EXPECT_THAT(error_of(request({.top_p = 0.0f})), HasSubstr("top_p is 0"));
  EXPECT_THAT(error_of(request({.stop_token_ids = {-1}})), HasSubstr("stop_token_ids is -1"));
  wrong = request({.n = 2});
  wrong.samples = {2};
  EXPECT_THAT(error_of(wrong), HasSubstr("sample 2"));
  EXPECT_TRUE(state_->seen().empty());
}

TEST_F(GenerationTest, FB023_AStopIdOfTheHeadBeyondTheTokenizer) {
  const auto generation = start();
  EXPECT_EQ(roll(*generation, request({.stop_token_ids = {199}}), 1).size(), 1u);
}

TEST_F(GenerationTest, FB027_NothingLeftToDrawIsRefused) {
  const auto generation = start();
  SamplingParams sampling;
  sampling.allowed_token_ids = {{5}};
  sampling.bad_words_ids = {{5}};
  EXPECT_EQ(generation->submit(request(sampling), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(GenerationTest, FB039_TooLongAPromptHasACodeAndBothNumbers) {
  const auto generation = start();
  GenerationRequest wrong = request();
  wrong.prompt_token_ids.assign(17, 1);
  const Status status = generation->submit(wrong, {}).status();
  EXPECT_EQ(error_code(status), "context_length_exceeded");
  EXPECT_THAT(message_of(status), HasSubstr("17"));
  EXPECT_THAT(message_of(status), HasSubstr("16"));
}

TEST_F(GenerationTest, FB037_APromptThatFillsTheContextEndsWithoutATokenAndIsMarked) {
  const auto generation = start();
  GenerationRequest full = request({.n = 2});
  full.prompt_token_ids.assign(16, 1);
  const auto rollouts = roll(*generation, full, 2);
  EXPECT_EQ(rollouts[1].finish.reason, FinishReason::kLength);
  EXPECT_TRUE(rollouts[1].finish.context_full);
  EXPECT_TRUE(rollouts[1].tokens.empty());
  EXPECT_FALSE(rollouts[1].truncated());
  EXPECT_TRUE(state_->seen().empty());
}

// Prompt records as they are asked for, and the end of a prompt that fills the context.
EventBatch full_context(const SequenceRequest& request) {
  SequenceEvent event{.id = request.id,
                      .finish = Finish{.reason = FinishReason::kLength, .context_full = true}};
  for (size_t i = 1; i < request.prompt_token_ids.size(); ++i) {
    event.prompt.push_back({.token = request.prompt_token_ids[i], .logprob = -1.0f});
  }
  return {event};
}

TEST_F(GenerationTest, APromptThatFillsTheContextHasItsLogprobs) {
  state_->script = full_context;
  const auto generation = start();
  GenerationRequest full = request({.prompt_logprobs = 0});
  full.prompt_token_ids.assign(16, 1);
  const auto rollouts = roll(*generation, full, 1);
  EXPECT_EQ(rollouts[0].prompt.size(), 15u);
  EXPECT_TRUE(rollouts[0].finish.context_full);
  EXPECT_FALSE(rollouts[0].truncated());
}

TEST_F(GenerationTest, EarlierOutputIsSentAsSuch) {
  const auto generation = start();
  GenerationRequest again = request({.max_tokens = 3, .output_prefix_len = 2});
  EXPECT_EQ(roll(*generation, again, 1)[0].finish.reason, FinishReason::kError);
  again.sampling.max_tokens = 4;
  EXPECT_EQ(roll(*generation, again, 1)[0].tokens.size(), 2u);
  EXPECT_EQ(state_->seen()[1].sampling.output_prefix_len, 2);
  again.prompt_token_ids.assign(16, 1);
  roll(*generation, again, 1);
  EXPECT_EQ(state_->seen().size(), 3u);
  again.sampling.output_prefix_len = 17;
  EXPECT_THAT(message_of(generation->submit(again, {}).status()),
              HasSubstr("output_prefix_len is 17; it must be at most 16"));
}

TEST_F(GenerationTest, ScoreSendsTheTokens) {
  state_->script = [](const SequenceRequest& request) -> EventBatch {
    SequenceEvent event{.id = request.id, .finish = Finish{}};
    for (const int32_t id : request.output_token_ids) {
      event.tokens.push_back({.token = id, .logprob = -2.0f});
    }
    return {event};
  };
  const auto generation = start();
  GenerationRequest score = request({.max_tokens = 1, .n = 8});
  score.score_token_ids = {{5, 6}};
  score.samples = {3};
  const auto rollouts = roll(*generation, score, 1);
  EXPECT_EQ(rollouts[0].sample, 3);
  EXPECT_EQ(rollouts[0].tokens[1].token, 6);
  EXPECT_TRUE(state_->seen()[0].score_only);
  score.score_token_ids = {{5, 200}};
  EXPECT_THAT(message_of(generation->submit(score, {}).status()), HasSubstr("token_ids[1] is 200"));
}

TEST_F(GenerationTest, AScoreOfNoTokensIsEmptyAndReachesNoShard) {
  const auto generation = start();
  GenerationRequest score = request();
  score.score_token_ids = std::vector<int32_t>();
  const auto rollouts = roll(*generation, score, 1);
  EXPECT_EQ(rollouts[0].finish.reason, FinishReason::kStop);
  EXPECT_TRUE(rollouts[0].tokens.empty());
  EXPECT_TRUE(state_->seen().empty());
  score.prompt_token_ids = {1, 200};
  EXPECT_FALSE(generation->submit(score, {}).ok());
}

TEST_F(GenerationTest, FB008_ADroppedLogprobRejectsTheSampleAndStopsIt) {
  state_->script = [](const SequenceRequest& request) -> EventBatch {
    return {{.id = request.id,
             .tokens = {{.token = 1, .logprob = -1.0f},
                        {.token = 2, .logprob = std::numeric_limits<float>::quiet_NaN()}}}};
  };
  const auto generation = start();
  const auto rollouts = roll(*generation, request(), 1);
  EXPECT_EQ(rollouts[0].finish.reason, FinishReason::kError);
  EXPECT_THAT(message_of(rollouts[0].finish.error), HasSubstr("token 1"));
  EXPECT_TRUE(generation->shutdown().ok());
  EXPECT_THAT(state_->cancelled, ElementsAre(state_->requests[0].id));
}

TEST_F(GenerationTest, TokensStreamInOrder) {
  const auto generation = start();
  auto tokens = std::make_shared<std::vector<int32_t>>();
  auto done = std::make_shared<std::promise<void>>();
  RequestObserver observer;
  observer.on_tokens = [tokens](int32_t, std::span<const TokenRecord> news, const RouteSpan&,
                                const Finish* finish) {
    if (finish != nullptr) tokens->push_back(-1);
    for (const TokenRecord& record : news) tokens->push_back(record.token);
  };
  observer.on_rollout = [done](Rollout) { done->set_value(); };
  ASSERT_TRUE(generation->submit(request(), observer).ok());
  ASSERT_EQ(done->get_future().wait_for(seconds(20)), std::future_status::ready);
  EXPECT_THAT(*tokens, ElementsAre(100, -1, 3));
}

TEST_F(GenerationTest, CancelEndsWithAbort) {
  state_->script = nullptr;
  const auto generation = start();
  auto done = std::make_shared<std::promise<FinishReason>>();
  const auto ids = generation->submit(request(), {.on_tokens = {}, .on_rollout = [done](Rollout r) {
                                                    done->set_value(r.finish.reason);
                                                  }});
  EXPECT_EQ(generation->in_flight(), 1);
  EXPECT_TRUE(generation->cancel(*ids).ok());
  auto future = done->get_future();
  ASSERT_EQ(future.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(future.get(), FinishReason::kAbort);
}

TEST_F(GenerationTest, ShutdownEndsWhatIsInFlight) {
  state_->script = nullptr;
  const auto generation = start();
  auto reason = std::make_shared<std::optional<FinishReason>>();
  ASSERT_TRUE(
      generation
          ->submit(request(), {.on_tokens = {},
                               .on_rollout = [reason](Rollout r) { *reason = r.finish.reason; }})
          .ok());
  EXPECT_TRUE(generation->shutdown().ok());
  EXPECT_EQ(*reason, FinishReason::kAbort);
}

TEST_F(GenerationTest, AShardThatRefusesLeavesNothingBehind) {
  state_->submit_status = absl::UnavailableError("shut down");
  const auto generation = start();
  EXPECT_EQ(generation->submit(request(), {}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(generation->in_flight(), 0);
}

TEST_F(GenerationTest, AStalledShardAndADeadOneAreFound) {
  state_->script = nullptr;
  state_->computes = false;
  auto clock = std::make_unique<ManualClock>();
  ManualClock* const time = clock.get();
  GenerationOptions options;
  options.clock = std::move(clock);
  options.stall_timeout = seconds(10);
  const auto generation = start(std::move(options));
  time->advance(seconds(100));
  EXPECT_TRUE(generation->check_progress().ok());  // nothing to do
  ASSERT_TRUE(generation->submit(request(), {}).ok());
  EXPECT_TRUE(generation->check_progress().ok());
  time->advance(seconds(9));
  EXPECT_TRUE(generation->check_progress().ok());
  time->advance(seconds(2));
  state_->computes = true;  // within a step that is not done
  EXPECT_TRUE(generation->check_progress().ok());
  time->advance(seconds(11));
  EXPECT_TRUE(generation->check_progress().ok());
  state_->computes = false;
  time->advance(seconds(11));
  EXPECT_EQ(generation->check_progress().code(), absl::StatusCode::kDeadlineExceeded);
  state_->health.serving = false;
  EXPECT_EQ(generation->check_progress().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GenerationTest, ARolloutNamesTheShardThatServedIt) {
  const auto other = make_state();
  other->script = nullptr;  // holds what it gets
  FakeLauncher launcher({other, state_});
  auto generation = Generation::start(launcher, {ShardSpec{}, ShardSpec{}}, {});
  ASSERT_TRUE(generation.ok());
  ASSERT_TRUE((*generation)->submit(request(), {}).ok());
  EXPECT_EQ(roll(**generation, request(), 1)[0].shard, 1);
  EXPECT_EQ(roll(**generation, request(), 1)[0].shard, 1);
  GenerationRequest full = request();
  full.prompt_token_ids.assign(16, 1);
  EXPECT_EQ(roll(**generation, full, 1)[0].shard, std::nullopt);
}

TEST_F(GenerationTest, ShardsShareTheLoadAndMustAgree) {
  const auto other = make_state();
  state_->script = nullptr;
  other->script = nullptr;
  FakeLauncher launcher({state_, other});
  auto generation = Generation::start(launcher, {ShardSpec{}, ShardSpec{}}, {});
  ASSERT_TRUE(generation.ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*generation)->submit(request(), {}).ok());
  EXPECT_EQ(state_->seen().size(), 2u);
  EXPECT_EQ(other->seen().size(), 2u);

  other->metrics.running = 5;
  other->health.serving = false;
  EXPECT_EQ((*generation)->shard_metrics()[1].running, 5);
  EXPECT_EQ((*generation)->metrics().running, 6);
  EXPECT_TRUE((*generation)->shard_health(0)->serving);
  EXPECT_FALSE((*generation)->shard_health(1)->serving);
  for (const int64_t unknown : {-1, 2}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*generation)->shard_health(unknown).status()));
  }

  const auto different = make_state();
  different->info.numerics.kv_dtype = "bfloat16";
  FakeLauncher second({make_state(), different});
  EXPECT_EQ(Generation::start(second, {ShardSpec{}, ShardSpec{}}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace rlgen::generation
