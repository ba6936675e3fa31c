#include <unistd.h>

#include <future>
#include <thread>

#include "generation/weights_checker.h"
#include "refit/checkpoint_transport.h"
#include "refit/fleet.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"

// What broke for others when weights changed, as stories.
namespace rlgen::fleet_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Stories : public ::testing::Test {
 protected:
  Stories() { fleet_.slow_down(std::chrono::microseconds(300)); }

  // What an engine gives that has only ever had these weights.
  engine::test::Outcome fresh(const TrainerWeights& weights, const Rollout& asked,
                              const std::vector<int32_t>& earlier = {}) {
    engine::test::Bench bench(reference_.loaded());
    bench.core->set_weights(reference_.pack(weights, 0), KvPolicy::kRecompute);
    SequenceRequest request = request_of(asked, 1);
    request.output_token_ids = earlier;
    return bench.run(request);
  }

  void expect_fresh(const TrainerWeights& weights, const Rollout& rollout, size_t from = 0) {
    std::vector<int32_t> earlier;
    for (size_t i = 0; i < from; ++i) earlier.push_back(rollout.tokens[i].token);
    const auto expected = fresh(weights, rollout, earlier);
    ASSERT_EQ(rollout.tokens.size(), from + expected.tokens.size());
    for (size_t i = from; i < rollout.tokens.size(); ++i) {
      EXPECT_EQ(rollout.tokens[i].token, expected.tokens[i - from].token) << i;
      EXPECT_EQ(rollout.tokens[i].logprob, expected.tokens[i - from].logprob) << i;
    }
  }

  // Submits a request that lasts and waits until it has some tokens.
  void start_long(const std::string& id, int32_t tokens = 110) {
    fleet_.submit(id, {5, 6, 7}, sampling_of(tokens, 3));
    fleet_.wait_for_tokens(id, 2);
  }

  const TrainerWeights a_{kLlama, 0x10};
  const TrainerWeights b_{kLlama, 0x24};
  Reference reference_{kLlama};
  Fleet fleet_{kLlama};
};

TEST_F(Stories, FB075_ACachedPromptIsNotServedAfterAnUpdate) {
  const auto prompt = engine::test::some_ids(80, 160, 4);
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
  fleet_.submit("before", prompt, sampling_of(8, 1));
  expect_fresh(a_, fleet_.wait("before"));
  ASSERT_TRUE(fleet_.update(b_, KvPolicy::kRecompute).ok());
  fleet_.submit("after", prompt, sampling_of(8, 1));
  const Rollout after = fleet_.wait("after");
  EXPECT_EQ(after.finish.cached_tokens, 0);
  expect_fresh(b_, after);
}

TEST_F(Stories, FB076_FB077_NoBlockOutlivesUpdatesThatKeepKv) {
  const auto prompt = engine::test::some_ids(64, 160, 4);
  fleet_.submit("old", prompt, sampling_of(8, 1));
  fleet_.wait("old");
  start_long("running");
  for (int update = 0; update < 5; ++update) {
    ASSERT_TRUE(fleet_.update(update % 2 == 0 ? a_ : b_, KvPolicy::kKeep).ok());
  }
  for (const bool with_prompt : {false, true}) {
    SamplingParams sampling = sampling_of(8, 2);
    if (with_prompt) sampling.prompt_logprobs = 0;
    const std::string id = with_prompt ? "with prompt values" : "plain";
    fleet_.submit(id, prompt, sampling);
    const Rollout rollout = fleet_.wait(id);
    EXPECT_EQ(rollout.finish.cached_tokens, 0);
    expect_fresh(a_, rollout);
  }
  fleet_.wait("running");
}

TEST_F(Stories, FB079_WhatStraddledAnUpdateIsNotFoundAgain) {
  start_long("straddles");
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kKeep).ok());
  const Rollout first = fleet_.wait("straddles");
  ASSERT_NE(first.tokens.front().version, first.tokens.back().version);
  std::vector<int32_t> text = first.prompt_token_ids;
  for (size_t i = 0; i < 100; ++i) text.push_back(first.tokens[i].token);
  fleet_.submit("again", text, sampling_of(4, 9));
  const Rollout again = fleet_.wait("again");
  EXPECT_EQ(again.finish.cached_tokens, 0);
  expect_fresh(a_, again);
}

TEST_F(Stories, FB089_ThereAndBackGivesTheFirstOutput) {
  std::vector<Rollout> rollouts;
  for (const TrainerWeights* weights : {&a_, &b_, &a_}) {
    ASSERT_TRUE(fleet_.update(*weights, KvPolicy::kRecompute).ok());
    fleet_.expect_served(*weights);
    const std::string id = std::to_string(rollouts.size());
    fleet_.submit(id, {5, 6, 7}, sampling_of(30, 3));
    rollouts.push_back(fleet_.wait(id));
  }
  bool differs = false;
  for (size_t i = 0; i < rollouts[0].tokens.size(); ++i) {
    EXPECT_EQ(rollouts[0].tokens[i].logprob, rollouts[2].tokens[i].logprob);
    differs |= rollouts[0].tokens[i].logprob != rollouts[1].tokens[i].logprob;
  }
  EXPECT_TRUE(differs);
}

TEST_F(Stories, T23_APauseThatKeepsFreezesAndTheRestMatchesTheNewWeights) {
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
  start_long("long");
  ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
  const size_t frozen = fleet_.tokens_of("long");
  ASSERT_LT(frozen, 110u);
  ASSERT_TRUE(fleet_.update(b_, KvPolicy::kRecompute).ok());
  EXPECT_TRUE(fleet_->paused());
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(fleet_.tokens_of("long"), frozen);
  ASSERT_TRUE(fleet_->resume().ok());
  expect_fresh(b_, fleet_.wait("long"), frozen);
}

TEST_F(Stories, T24_ClearingTheCacheDecidesWhetherKvIsRebuilt) {
  for (const bool clear : {true, false}) {
    ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
    const std::string id = clear ? "cleared" : "kept";
    start_long(id);
    ASSERT_TRUE(fleet_->pause(PauseMode::kKeep, {.clear_cache = clear}).ok());
    const size_t frozen = fleet_.tokens_of(id);
    ASSERT_LT(frozen, 110u);
    const WeightVersion old = fleet_->updates().version();
    ASSERT_TRUE(fleet_.update(b_, KvPolicy::kKeep).ok());
    ASSERT_TRUE(fleet_->resume().ok());
    const Rollout rollout = fleet_.wait(id);
    EXPECT_EQ(rollout.tokens.back().oldest_kv, clear ? old + 1 : old);
    if (clear) expect_fresh(b_, rollout, frozen);
  }
}

TEST_F(Stories, T24_InvalidateHoldsWithRequestsInFlight) {
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
  start_long("long");
  ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
  const size_t frozen = fleet_.tokens_of("long");
  ASSERT_TRUE(fleet_.update(b_, KvPolicy::kKeep).ok());
  ASSERT_TRUE(fleet_->invalidate_kv_cache());
  ASSERT_TRUE(fleet_->resume().ok());
  expect_fresh(b_, fleet_.wait("long"), frozen);
}

TEST_F(Stories, T32_FB108_FB109_TheVersionIsOfWhatMadeTheToken) {
  start_long("running");
  ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
  fleet_.submit("waited", {5, 6}, sampling_of(4, 1));
  const size_t frozen = fleet_.tokens_of("running");
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kKeep).ok());
  ASSERT_TRUE(fleet_->set_rollout_weight_version(40).ok());
  ASSERT_TRUE(fleet_->resume().ok());
  for (const TokenRecord& record : fleet_.wait("waited").tokens) {
    EXPECT_EQ(record.version, 40);
    EXPECT_EQ(record.oldest_kv, 40);
  }
  const Rollout running = fleet_.wait("running");
  for (size_t i = 0; i < running.tokens.size(); ++i) {
    EXPECT_EQ(running.tokens[i].version, i < frozen ? 0 : 40);
    EXPECT_EQ(running.tokens[i].oldest_kv, 0);
  }
}

TEST_F(Stories, T39_AFailedUpdateLeavesAPausedEnginePaused) {
  start_long("long");
  for (const bool paused : {true, false}) {
    if (paused) {
      ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
    }
    UpdateSpec spec{.update_id = paused ? "p" : "r"};
    spec.manifest = a_.manifest();
    spec.manifest[0].digest = std::string(32, '0');
    ASSERT_TRUE(fleet_->updates().begin(spec).ok());
    const Status wrong = fleet_->updates().write(spec.update_id, spec.manifest[0].name, 0,
                                                 a_.bytes(spec.manifest[0].name));
    EXPECT_EQ(wrong.code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(fleet_->updates().prepare(spec.update_id).ok());
    EXPECT_TRUE(fleet_->updates().abort(spec.update_id).ok());
    EXPECT_EQ(fleet_->paused(), paused);
    EXPECT_EQ(fleet_->updates().version(), 0);
    if (paused) {
      ASSERT_TRUE(fleet_->resume().ok());
    }
  }
  EXPECT_EQ(fleet_.wait("long").tokens.size(), 110u);
}

// The second of several messages is wrong: whatever came before and after it, the old weights
// serve, whole, and the next update is as if nothing had been.
TEST_F(Stories, FB100_FB101_AFailureAmongManyMessagesChangesNothing) {
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
  const std::string endpoint =
      *refit::ipc_endpoint(::testing::TempDir(), std::to_string(::getpid()), "fb101");
  const auto send = [&](const UpdateSpec& spec) {
    auto received = std::async(std::launch::async, [&] {
      return refit::receive_ipc(endpoint, spec, fleet_->updates(), {.timeout = seconds(20)});
    });
    auto sender = *refit::IpcSender::create(endpoint, {.buffer_bytes = 2 * 512});
    for (const auto& tensor : b_.tensors()) EXPECT_TRUE(sender.send(tensor.name, tensor.view).ok());
    EXPECT_TRUE(sender.finish().ok());
    return received.get();
  };
  UpdateSpec spec{.update_id = "wrong"};
  spec.manifest = b_.manifest();
  spec.manifest[1].digest = std::string(32, '0');
  EXPECT_EQ(send(spec).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(fleet_->updates().commit("wrong").ok());
  EXPECT_EQ(fleet_->updates().version(), 1);
  fleet_.expect_served(a_);
  fleet_.submit("old", {5, 6, 7}, sampling_of(8, 1));
  expect_fresh(a_, fleet_.wait("old"));
  spec = {.update_id = "right", .manifest = b_.manifest()};
  const auto right = send(spec);
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_GT(right->batches, 2);
  fleet_.expect_served(b_);
  fleet_.submit("new", {5, 6, 7}, sampling_of(8, 1));
  expect_fresh(b_, fleet_.wait("new"));
}

// Where there is no room for two copies the old weights go first. Then a failure leaves none, and
// everybody is told so until a whole update has come.
TEST_F(Stories, FB101_AnUpdateInThePlaceOfTheOldWeights) {
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
  start_long("long");
  ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
  const size_t frozen = fleet_.tokens_of("long");
  ASSERT_LT(frozen, 110u);
  ASSERT_TRUE(fleet_->sleep(SleepLevel::kDrop).ok());
  UpdateSpec spec{.update_id = "cut off"};
  spec.manifest = b_.manifest();
  ASSERT_TRUE(fleet_->updates().begin(spec).ok());
  const std::string& name = spec.manifest[0].name;
  ASSERT_TRUE(fleet_->updates().write(spec.update_id, name, 0, b_.bytes(name)).ok());
  EXPECT_EQ(fleet_->updates().prepare(spec.update_id).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(fleet_->updates().abort(spec.update_id).ok());
  ASSERT_TRUE(fleet_->wake().ok());
  ASSERT_TRUE(fleet_->resume().ok());
  fleet_.submit("refused", {5}, sampling_of(4, 1));
  EXPECT_THAT(message_of(fleet_.wait("refused").finish.error),
              ::testing::HasSubstr("no weights; send an update"));
  EXPECT_FALSE(fleet_->served_checksums().ok());
  EXPECT_EQ(fleet_.tokens_of("long"), frozen);
  ASSERT_TRUE(fleet_.update(b_, KvPolicy::kRecompute).ok());
  fleet_.expect_served(b_);
  expect_fresh(b_, fleet_.wait("long"), frozen);
}

TEST_F(Stories, FB112_NobodyIsAbortedByAWholeCycle) {
  for (int i = 0; i < 16; ++i) fleet_.submit(std::to_string(i), {5, 6, i}, sampling_of(110, i));
  fleet_.wait_for_tokens("15", 2);
  ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kKeep).ok());
  ASSERT_TRUE(fleet_->set_rollout_weight_version(7).ok());
  ASSERT_TRUE(fleet_->resume().ok());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(fleet_.wait(std::to_string(i)).finish.reason, FinishReason::kLength);
  }
}

TEST_F(Stories, FB113_NoTransportWaitsForPausedRequests) {
  for (int i = 0; i < 4; ++i) fleet_.submit(std::to_string(i), {5, i}, sampling_of(110, i));
  fleet_.wait_for_tokens("3", 1);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(fleet_->pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute).ok());
  const auto folder = *models::SafetensorsFolder::open(fixture(kLlama));
  ASSERT_TRUE(
      refit::send_checkpoint(folder, {.update_id = "disk"}, fleet_->updates(), nullptr).ok());
  const std::string endpoint =
      *refit::ipc_endpoint(::testing::TempDir(), std::to_string(::getpid()), "fb113");
  UpdateSpec spec{.update_id = "ipc"};
  spec.manifest = b_.manifest();
  auto received = std::async(std::launch::async, [&] {
    return refit::receive_ipc(endpoint, spec, fleet_->updates(), {.timeout = seconds(20)});
  });
  {
    auto sender = *refit::IpcSender::create(endpoint, {.buffer_bytes = 1 << 20});
    for (const auto& tensor : b_.tensors()) {
      ASSERT_TRUE(sender.send(tensor.name, tensor.view).ok());
    }
    ASSERT_TRUE(sender.finish().ok());
  }
  ASSERT_TRUE(received.get().ok());
  fleet_.expect_served(b_);
  ASSERT_TRUE(fleet_->resume().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(5));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(fleet_.wait(std::to_string(i)).tokens.back().version, 3);
  }
}

TEST_F(Stories, FB116_APauseThatAbortsAnswersEveryone) {
  Fleet small(kLlama, 1, /*max_num_seqs=*/8);
  small.slow_down(std::chrono::microseconds(300));
  for (int i = 0; i < 16; ++i) small.submit(std::to_string(i), {5, i}, sampling_of(120, i));
  small.wait_for_tokens("7", 1);
  ASSERT_TRUE(small->pause(PauseMode::kAbort).ok());
  for (int i = 0; i < 16; ++i) {
    const Rollout rollout = small.wait(std::to_string(i));
    EXPECT_EQ(rollout.finish.reason, FinishReason::kAbort);
    EXPECT_EQ(rollout.tokens.empty(), i >= 8) << i;
  }
}

TEST_F(Stories, FB117_EveryRequestHasOneAnswerWheneverItIsAborted) {
  for (int round = 0; round < 30; ++round) {
    std::jthread aborts([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      EXPECT_TRUE(fleet_->pause(PauseMode::kAbort).ok());
      EXPECT_TRUE(fleet_->resume().ok());
    });
    const auto name = [&](int i) { return std::to_string(round * 100 + i); };
    for (int i = 0; i < 20; ++i) fleet_.submit(name(i), {5, i}, sampling_of(5, i));
    for (int i = 0; i < 20; ++i) fleet_.wait(name(i));
  }
}

// Every pause with every policy, with requests that run, wait, come during the pause and are
// cancelled in it: each has one answer, and tokens of the new weights are of the new version.
class PauseAndPolicy : public Stories,
                       public ::testing::WithParamInterface<std::tuple<PauseMode, KvPolicy>> {};

TEST_P(PauseAndPolicy, EveryRequestEndsAndTheUpdateIsServed) {
  const auto [mode, policy] = GetParam();
  Fleet fleet(kLlama, 1, /*max_num_seqs=*/4);
  fleet.slow_down(std::chrono::microseconds(300));
  for (int i = 0; i < 8; ++i) fleet.submit(std::to_string(i), {5, i}, sampling_of(100, i));
  fleet.wait_for_tokens("3", 2);
  ASSERT_TRUE(fleet->pause(mode).ok());
  for (int i = 8; i < 12; ++i) fleet.submit(std::to_string(i), {5, i}, sampling_of(20, i));
  const Status updated = fleet.update(a_, policy);
  const bool frozen =
      policy == KvPolicy::kWait && (mode == PauseMode::kKeep || mode == PauseMode::kRetract);
  if (frozen) {
    EXPECT_EQ(updated.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(fleet->updates().version(), 0);
    EXPECT_EQ(fleet->updates().open_update(), std::nullopt);
  } else {
    ASSERT_TRUE(updated.ok()) << updated;
    fleet.expect_served(a_);
  }
  ASSERT_TRUE(fleet->resume().ok());
  for (int i = 0; i < 12; ++i) {
    const Rollout rollout = fleet.wait(std::to_string(i));
    const bool aborted = rollout.finish.reason == FinishReason::kAbort;
    EXPECT_TRUE(aborted || rollout.finish.reason == FinishReason::kLength);
    if (aborted) {
      EXPECT_TRUE(mode == PauseMode::kAbort || policy == KvPolicy::kAbort);
    }
    if (i >= 8) {
      EXPECT_FALSE(aborted) << i;
    }
    if (i >= 8 && !frozen) {
      EXPECT_EQ(rollout.tokens.front().version, 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PauseAndPolicy,
                         ::testing::Combine(::testing::Values(PauseMode::kKeep, PauseMode::kWait,
                                                              PauseMode::kAbort,
                                                              PauseMode::kRetract),
                                            ::testing::Values(KvPolicy::kKeep, KvPolicy::kRecompute,
                                                              KvPolicy::kAbort, KvPolicy::kWait)));

TEST(Checker, AResetIsSeenAndARoundTripIsNot) {
  const TrainerWeights weights(kLlama, 0x10);
  Fleet fleet(kLlama);
  generation::WeightsChecker checker(&*fleet);
  EXPECT_EQ(checker.compare().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(fleet.update(weights, KvPolicy::kRecompute, 4).ok());
  ASSERT_TRUE(checker.snapshot().ok());
  EXPECT_TRUE(checker.compare()->empty());
  ASSERT_TRUE(checker.reset().ok());
  EXPECT_EQ(fleet->updates().version(), 4);
  EXPECT_EQ(checker.compare()->size(), weights.manifest().size());
  ASSERT_TRUE(fleet.update(weights, KvPolicy::kRecompute, 5).ok());
  EXPECT_TRUE(checker.compare()->empty());
}

}  // namespace
}  // namespace rlgen::fleet_test
