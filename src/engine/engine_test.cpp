#include "engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using std::chrono::milliseconds;

class EngineTest : public ::testing::Test {
 protected:
  // Runs until the context is full.
  static SequenceRequest long_request(SequenceId id) { return greedy_request(id, {3}, 100'000); }

  // An engine in the middle of long_request(1), with `more` queued.
  std::unique_ptr<Engine> make_busy(const Settings& settings, std::vector<SequenceRequest> more) {
    auto engine = start_engine(loaded, &sink, settings);
    sink.set_slow(true);
    more.insert(more.begin(), long_request(1));
    EXPECT_TRUE(engine->submit(std::move(more)).ok());
    sink.wait_for_tokens(1, 3);
    return engine;
  }

  const Loaded loaded = load_checkpoint("table_prefers_six");
  Collector sink;
};

TEST_F(EngineTest, ServesAndSleeps) {
  auto engine = start_engine(loaded, &sink);
  ASSERT_TRUE(engine->submit({greedy_request(1, {3}, 5), greedy_request(2, {4, 5}, 6)}).ok());
  EXPECT_EQ(sink.wait(1).tokens.size(), 5u);
  EXPECT_EQ(sink.wait(2).tokens.size(), 6u);
  const int64_t steps = engine->health().steps;
  EXPECT_GE(steps, 6);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(engine->health().steps, steps);
  EXPECT_TRUE(engine->health().serving);
  EXPECT_EQ(engine->metrics().generated_tokens, 11);
  EXPECT_EQ(engine->metrics().prompt_tokens, 3);
  EXPECT_EQ(engine->metrics().running, 0);
}

TEST_F(EngineTest, AnIdInFlightIsRefusedAndLaterFree) {
  auto engine = start_engine(loaded, &sink);
  ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(engine->submit({greedy_request(1, {3}, 5)}).ok());
  const Status twice = engine->submit({greedy_request(2, {3}, 5), greedy_request(1, {3}, 5)});
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(engine->submit({greedy_request(2, {3}, 5)}).ok());
  ASSERT_TRUE(engine->resume().ok());
  EXPECT_EQ(sink.wait(1).tokens.size(), 5u);
  EXPECT_EQ(sink.wait(2).tokens.size(), 5u);
  const Status again = engine->submit({greedy_request(3, {3}, 5), greedy_request(3, {3}, 5)});
  EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(EngineTest, PauseKeepFreezesAndResumeGoesOn) {
  auto engine = make_busy({}, {});
  ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
  EXPECT_EQ(engine->pause(PauseMode::kAbort).code(), absl::StatusCode::kFailedPrecondition);
  const size_t frozen = sink.get(1).tokens.size();
  std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(sink.get(1).tokens.size(), frozen);
  EXPECT_TRUE(engine->health().paused);
  ASSERT_TRUE(engine->resume().ok());
  EXPECT_EQ(sink.wait(1).tokens.size(), 255u);
  EXPECT_FALSE(engine->health().paused);
}

// What a step would still read while the caller thinks it paused: weights that are NaN meanwhile.
TEST_F(EngineTest, FB115_NothingComputesOnceAPauseHasReturned) {
  auto engine = make_busy({}, {});
  const std::span<std::byte> weights = loaded.store->current()->region()->bytes();
  const std::vector<std::byte> good(weights.begin(), weights.end());
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
    std::ranges::fill(weights, std::byte{0xff});
    std::this_thread::sleep_for(milliseconds(2));
    std::ranges::copy(good, weights.begin());
    ASSERT_TRUE(engine->resume().ok());
    sink.wait_for_tokens(1, sink.get(1).tokens.size() + 2);
  }
  Bench bench(loaded);
  expect_same_bits(sink.wait(1), bench.run(long_request(1)));
}

TEST_F(EngineTest, PauseWaitLetsStartedSequencesFinish) {
  auto engine = make_busy({.max_num_seqs = 1}, {greedy_request(2, {3}, 4)});
  ASSERT_TRUE(engine->pause(PauseMode::kWait).ok());
  EXPECT_TRUE(sink.get(1).finish.has_value());
  EXPECT_TRUE(sink.get(2).tokens.empty());
  ASSERT_TRUE(engine->pause(PauseMode::kWait).ok());
  ASSERT_TRUE(engine->resume().ok());
  EXPECT_EQ(sink.wait(2).tokens.size(), 4u);
}

TEST_F(EngineTest, PauseAbortEndsEverything) {
  auto engine = make_busy({.max_num_seqs = 1}, {long_request(2)});
  ASSERT_TRUE(engine->pause(PauseMode::kAbort).ok());
  EXPECT_EQ(sink.get(1).finish->reason, FinishReason::kAbort);
  EXPECT_EQ(sink.get(2).finish->reason, FinishReason::kAbort);
  ASSERT_TRUE(engine->resume().ok());
}

TEST_F(EngineTest, PauseRetractDropsKvAndTheBitsStay) {
  auto engine = make_busy({}, {});
  ASSERT_TRUE(engine->pause(PauseMode::kRetract).ok());
  EXPECT_EQ(engine->metrics().kv_blocks_used, 0);
  EXPECT_EQ(engine->metrics().waiting, 1);
  sink.set_slow(false);
  ASSERT_TRUE(engine->resume().ok());
  const Outcome outcome = sink.wait(1);
  Bench bench(loaded);
  expect_same_bits(outcome, bench.run(long_request(1)));
}

TEST_F(EngineTest, WeightsThatWaitLetStartedSequencesFinish) {
  auto engine = make_busy({.max_num_seqs = 1}, {greedy_request(2, {3}, 4)});
  const auto other = loaded.other_weights(7, 2);
  ASSERT_TRUE(engine->set_weights(other, KvPolicy::kWait).ok());
  EXPECT_EQ(sink.get(1).tokens.back().version, 0);
  EXPECT_EQ(sink.wait(2).tokens.front().version, 7);
  EXPECT_TRUE(engine->set_weights(other, KvPolicy::kWait).ok());
}

TEST_F(EngineTest, WeightsThatWaitAreRefusedWhileFrozen) {
  auto engine = make_busy({}, {});
  ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
  EXPECT_EQ(engine->set_weights(loaded.other_weights(7, 2), KvPolicy::kWait).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(engine->set_weights(loaded.other_weights(8, 3), KvPolicy::kRecompute).ok());
  EXPECT_TRUE(engine->health().paused);
  ASSERT_TRUE(engine->resume().ok());
  EXPECT_EQ(sink.wait(1).tokens.back().version, 8);
}

TEST_F(EngineTest, ShutdownAbortsAndRefuses) {
  auto engine = start_engine(loaded, &sink);
  ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(engine->submit({long_request(1)}).ok());
  engine->shutdown();
  engine->shutdown();
  EXPECT_EQ(sink.get(1).finish->reason, FinishReason::kAbort);
  EXPECT_EQ(engine->submit({long_request(2)}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->pause(PauseMode::kKeep).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine->health().serving);
}

TEST_F(EngineTest, ManyThreadsSubmitCancelPauseAndUpdate) {
  auto engine =
      start_engine(loaded, &sink, {.threads = 2, .max_num_seqs = 8, .budget = 32, .kv_blocks = 20});
  constexpr SequenceId kEach = 40;
  const auto submitter = [&](SequenceId base) {
    for (SequenceId i = 0; i < kEach; ++i) {
      EXPECT_TRUE(engine->submit({greedy_request(base + i, {3, 4, 5}, 20)}).ok());
      if (i % 5 != 0) continue;
      EXPECT_TRUE(engine->cancel(std::vector<SequenceId>{base + i}).ok());
    }
  };
  {
    std::jthread first([&] { submitter(1000); });
    std::jthread second([&] { submitter(2000); });
    std::jthread pauses([&] {
      for (const PauseMode mode : {PauseMode::kKeep, PauseMode::kRetract, PauseMode::kWait}) {
        EXPECT_TRUE(engine->pause(mode).ok());
        engine->metrics();
        EXPECT_TRUE(engine->resume().ok());
      }
    });
    std::jthread updates([&] {
      WeightSerial serial = 2;
      for (const KvPolicy policy : {KvPolicy::kKeep, KvPolicy::kRecompute, KvPolicy::kKeep}) {
        EXPECT_TRUE(engine->set_weights(loaded.other_weights(1, serial), policy).ok());
        ++serial;
      }
    });
  }
  for (const SequenceId base : {1000, 2000}) {
    for (SequenceId i = 0; i < kEach; ++i) {
      const Outcome outcome = sink.wait(base + i);
      EXPECT_TRUE(i % 5 == 0 || outcome.tokens.size() == 20u) << base + i;
    }
  }
  EXPECT_EQ(engine->metrics().kv_blocks_used, 0);
}

TEST_F(EngineTest, ShutdownFromAnotherThreadAnswersWhoeverWaits) {
  auto engine = start_engine(loaded, &sink);
  ASSERT_TRUE(engine->submit({long_request(1)}).ok());
  auto waiting = std::async(std::launch::async, [&] { return engine->pause(PauseMode::kWait); });
  std::jthread submitter([&] {
    for (SequenceId id = 10; id < 200; ++id) {
      if (!engine->submit({greedy_request(id, {3}, 50)}).ok()) return;
    }
  });
  engine->shutdown();
  const Status status = waiting.get();
  EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(sink.get(1).finish.has_value());
}

}  // namespace
}  // namespace rlgen::engine
