#include "generation/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "generation/batch_run.h"
#include "generation/error_code.h"
#include "generation/fake_shard.h"

namespace rlgen::generation {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

// Two tokens, 100 + sample and 3, and the end.
EventBatch two_tokens(const SequenceRequest& request) {
  return {{.id = request.id, .tokens = {{.token = 100 + request.sample_index, .logprob = -1.0f}}},
          {.id = request.id,
           .tokens = {{.token = 3, .logprob = -0.5f}},
           .finish = Finish{.reason = FinishReason::kStop, .stop_reason = 3}}};
}

class GenerationTest : public testing::Test {
 protected:
  static std::shared_ptr<FakeShardState> make_state() {
    auto state = std::make_shared<FakeShardState>();
    state->info.vocab_size = 200;
    state->info.max_model_len = 16;
    state->info.numerics.model_digest = "d";
    state->script = two_tokens;
    return state;
  }

  std::unique_ptr<Generation> start(GenerationOptions options = {}) {
    FakeLauncher launcher({state_});
    auto generation = Generation::start(launcher, {ShardSpec{}}, std::move(options));
    EXPECT_TRUE(generation.ok()) << generation.status();
    return *std::move(generation);
  }

  static GenerationRequest request(SamplingParams sampling = {}) {
    GenerationRequest request{.id = "p", .prompt_token_ids = {1, 2}};
    request.sampling = std::move(sampling);
    return request;
  }

  // Submits and waits for `count` rollouts.
  static std::vector<Rollout> roll(Generation& generation, GenerationRequest request,
                                   size_t count) {
    struct Shared {
      std::mutex mutex;
      std::vector<Rollout> rollouts;
      std::promise<void> done;
    };
    auto shared = std::make_shared<Shared>();
    const auto ids = generation.submit(
        std::move(request), {.on_tokens = {}, .on_rollout = [shared, count](Rollout rollout) {
                               const std::lock_guard lock(shared->mutex);
                               shared->rollouts.push_back(std::move(rollout));
                               if (shared->rollouts.size() == count) shared->done.set_value();
                             }});
    EXPECT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(shared->done.get_future().wait_for(seconds(20)), std::future_status::ready);
    return shared->rollouts;
  }

  std::shared_ptr<FakeShardState> state_ = make_state();
};

TEST_F(GenerationTest, SamplesAreAGroupOfOneShard) {
  const auto generation = start();
  const auto rollouts = roll(*generation, request({.seed = 9, .n = 3}), 3);
  ASSERT_EQ(rollouts.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rollouts[static_cast<size_t>(i)].sample, i);
    EXPECT_EQ(rollouts[static_cast<size_t>(i)].tokens[0].token, 100 + i);
  }
  const auto seen = state_->seen();
  EXPECT_EQ(seen[0].group, seen[2].group);
  EXPECT_EQ(seen[2].sample_index, 2);
  EXPECT_EQ(seen[1].sampling.seed, 9);
  EXPECT_EQ(generation->in_flight(), 0);
  EXPECT_EQ(rollouts[0].numerics, generation->info().numerics.to_string());
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
  full.sampling.prompt_logprobs = 0;
  EXPECT_EQ(error_code(generation->submit(full, {}).status()), "context_length_exceeded");
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
  observer.on_tokens = [tokens](int32_t, std::span<const TokenRecord> news, const Finish* finish) {
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
  state_->count_steps = false;
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
  EXPECT_EQ(generation->check_progress().code(), absl::StatusCode::kDeadlineExceeded);
  state_->health.serving = false;
  EXPECT_EQ(generation->check_progress().code(), absl::StatusCode::kUnavailable);
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

  const auto different = make_state();
  different->info.numerics.kv_dtype = "bfloat16";
  FakeLauncher second({make_state(), different});
  EXPECT_EQ(Generation::start(second, {ShardSpec{}, ShardSpec{}}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

class ListSink final : public RolloutSink {
 public:
  Status accept(const Rollout& rollout) override {
    if (static_cast<int64_t>(rollouts.size()) >= room) return absl::ResourceExhaustedError("full");
    rollouts.push_back(rollout);
    return absl::OkStatus();
  }
  std::vector<Rollout> rollouts;
  int64_t room = 1 << 30;
};

class BatchRun : public GenerationTest {
 protected:
  // A job of `count` requests; odd ones are bad when `with_bad`.
  BatchJob job(int64_t count, bool with_bad = false) {
    BatchJob job;
    job.next = [this, count, with_bad]() -> StatusOr<std::optional<GenerationRequest>> {
      if (given_ == count) return std::optional<GenerationRequest>();
      GenerationRequest next = request({.n = 2});
      next.id = std::to_string(given_++);
      if (with_bad && given_ % 2 == 0) next.prompt_token_ids.clear();
      return std::optional<GenerationRequest>(std::move(next));
    };
    job.rejected = [this](const GenerationRequest& bad, const Status&) {
      rejected_.push_back(bad.id);
      return absl::OkStatus();
    };
    job.sink = &sink_;
    job.max_in_flight = 6;
    return job;
  }

  int64_t given_ = 0;
  std::vector<std::string> rejected_;
  ListSink sink_;
};

TEST_F(BatchRun, EveryRequestOnce) {
  const auto generation = start();
  BatchProgress last;
  BatchJob all = job(50);
  all.progress = [&](const BatchProgress& progress) {
    EXPECT_LE(progress.in_flight, 7);
    last = progress;
  };
  EXPECT_TRUE(run_batch(*generation, all).ok());
  EXPECT_EQ(sink_.rollouts.size(), 100u);
  EXPECT_EQ(last.rollouts, 100);
  EXPECT_EQ(last.tokens, 200);
  std::set<std::pair<std::string, int32_t>> keys;
  for (const Rollout& rollout : sink_.rollouts) keys.emplace(rollout.id, rollout.sample);
  EXPECT_EQ(keys.size(), 100u);
}

TEST_F(BatchRun, FB041_FB045_BadRequestsDoNotHurtTheRest) {
  const auto generation = start();
  EXPECT_TRUE(run_batch(*generation, job(10, true)).ok());
  EXPECT_EQ(sink_.rollouts.size(), 10u);
  EXPECT_EQ(rejected_.size(), 5u);
}

TEST_F(BatchRun, AFullSinkEndsTheRunAndCancelsTheRest) {
  const auto generation = start();
  sink_.room = 5;
  EXPECT_EQ(run_batch(*generation, job(50)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(sink_.rollouts.size(), 5u);
}

TEST_F(BatchRun, AnInterruptLeavesNoAbortedRollouts) {
  state_->script = [](const SequenceRequest& request) {
    return request.id <= 4 ? two_tokens(request) : EventBatch{};
  };
  const auto generation = start();
  BatchJob stopped = job(50);
  stopped.interrupted = [&] { return sink_.rollouts.size() >= 4; };
  EXPECT_EQ(run_batch(*generation, stopped).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(sink_.rollouts.size(), 4u);
  for (const Rollout& rollout : sink_.rollouts) {
    EXPECT_EQ(rollout.finish.reason, FinishReason::kStop);
  }
}

TEST_F(BatchRun, ADeadShardEndsTheRun) {
  state_->script = nullptr;
  state_->health.serving = false;
  const auto generation = start();
  EXPECT_EQ(run_batch(*generation, job(5)).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(sink_.rollouts.empty());
}

}  // namespace
}  // namespace rlgen::generation
