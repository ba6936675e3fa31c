#include "generation/batch_run.h"

#include <gtest/gtest.h>

#include <set>

#include "generation/generation_fixture.h"

namespace rlgen::generation {
namespace {

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
    job.next = [this, count, with_bad](bool) -> StatusOr<NextRequest> {
      if (given_ == count) return NextRequest{.request = {}, .ended = true};
      GenerationRequest next = request({.n = 2});
      next.id = std::to_string(given_++);
      if (with_bad && given_ % 2 == 0) next.prompt_token_ids.clear();
      return NextRequest{.request = std::move(next)};
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

// A source may be a pipe whose other end waits for the answers before it gives more.
TEST_F(BatchRun, ASourceThatHasNothingYetHoldsNothingUp) {
  const auto generation = start();
  BatchJob slow = job(9);
  std::vector<bool> waits;
  const auto give = slow.next;
  slow.next = [&](bool may_wait) -> StatusOr<NextRequest> {
    const auto answered = static_cast<int64_t>(sink_.rollouts.size());
    if (answered < 2 * given_) {
      EXPECT_FALSE(may_wait);
      return NextRequest{};
    }
    waits.push_back(may_wait);
    return give(may_wait);
  };
  EXPECT_TRUE(run_batch(*generation, slow).ok());
  EXPECT_EQ(sink_.rollouts.size(), 18u);
  EXPECT_EQ(waits, std::vector<bool>(10, true));
}

TEST_F(BatchRun, AnInterruptWhileNothingComesIsNoEnd) {
  const auto generation = start();
  BatchJob silent = job(1);
  bool interrupted = false;
  const auto give = silent.next;
  silent.next = [&](bool may_wait) -> StatusOr<NextRequest> {
    if (given_ < 1) return give(may_wait);
    interrupted = may_wait;
    return NextRequest{};
  };
  silent.interrupted = [&] { return interrupted; };
  EXPECT_EQ(run_batch(*generation, silent).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(sink_.rollouts.size(), 2u) << "what was finished is kept";
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
