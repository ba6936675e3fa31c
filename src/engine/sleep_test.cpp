#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "engine/engine.h"
#include "engine/test_engine.h"
#include "engine/test_memory.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

class SleepTest : public ::testing::Test {
 protected:
  const Loaded loaded = load_checkpoint("llama");
  const SequenceRequest request = make_request(1, some_ids(20, 160, 6), 60, 3);
  Collector sink;
};

TEST_F(SleepTest, RequestsAreRefusedByName) {
  auto engine = start_engine(loaded, &sink);
  for (const MemoryTags tags :
       {MemoryTags{true, true}, MemoryTags{true, false}, MemoryTags{false, true}}) {
    ASSERT_TRUE(engine->sleep(tags).ok());
    ASSERT_TRUE(engine->sleep(tags).ok());
    EXPECT_TRUE(engine->health().paused);
    const auto id = SequenceId(10 + tags.weights + 2 * tags.kv_cache);
    ASSERT_TRUE(engine->submit({make_request(id, {3}, 4)}).ok());
    const Outcome refused = sink.wait(id);
    EXPECT_EQ(refused.finish->reason, FinishReason::kError);
    EXPECT_NE(message_of(refused.finish->error).find("asleep"), std::string::npos);
    ASSERT_TRUE(engine->wake({true, true}, loaded.store->current()).ok());
    EXPECT_FALSE(engine->health().paused);
    ASSERT_TRUE(engine->submit({make_request(id + 100, {3}, 4)}).ok());
    EXPECT_EQ(sink.wait(id + 100).tokens.size(), 4u);
  }
}

TEST_F(SleepTest, SequencesInFlightGoOnWithTheSameBits) {
  Bench alone(loaded);
  const Outcome expected = alone.run(request);
  auto engine = start_engine(loaded, &sink);
  sink.set_slow(true);
  ASSERT_TRUE(engine->submit({request}).ok());
  for (size_t tokens = 5; tokens < 60; tokens += 15) {
    sink.wait_for_tokens(1, tokens);
    ASSERT_TRUE(engine->sleep({true, true}).ok());
    const size_t asleep = sink.get(1).tokens.size();
    ASSERT_TRUE(engine->wake({true, false}, loaded.store->current()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(sink.get(1).tokens.size(), asleep);
    ASSERT_TRUE(engine->wake({false, true}, nullptr).ok());
  }
  expect_same_bits(sink.wait(1), expected);
}

TEST_F(SleepTest, WithoutWeightsItWaitsToBeFed) {
  auto engine = start_engine(loaded, &sink);
  sink.set_slow(true);
  ASSERT_TRUE(engine->submit({request}).ok());
  sink.wait_for_tokens(1, 3);
  ASSERT_TRUE(engine->sleep({true, true}).ok());
  ASSERT_TRUE(engine->wake({true, true}, nullptr).ok());
  EXPECT_FALSE(engine->health().serving);
  ASSERT_TRUE(engine->submit({make_request(2, {3}, 4)}).ok());
  EXPECT_NE(message_of(sink.wait(2).finish->error).find("no weights"), std::string::npos);
  ASSERT_TRUE(engine->set_weights(loaded.other_weights(4, 9), KvPolicy::kKeep).ok());
  EXPECT_EQ(sink.wait(1).tokens.back().version, 4);
  EXPECT_EQ(sink.wait(1).tokens.back().oldest_kv, 4);
}

TEST_F(SleepTest, WhatWaitsForSequencesIsRefusedInsteadOfHanging) {
  auto engine = start_engine(loaded, &sink);
  sink.set_slow(true);
  ASSERT_TRUE(engine->submit({request}).ok());
  sink.wait_for_tokens(1, 3);
  ASSERT_TRUE(engine->sleep({true, true}).ok());
  EXPECT_EQ(engine->pause(PauseMode::kWait).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(engine->drain().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(engine->set_weights(loaded.other_weights(4, 9), KvPolicy::kWait).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(engine->wake({true, true}, loaded.store->current()).ok());
  auto waits = std::async(std::launch::async, [&] {
    Status drained = engine->drain();
    while (absl::IsFailedPrecondition(drained)) drained = engine->drain();  // it slept just then
    return drained;
  });
  while (engine->sleep({true, true}).ok()) {
    ASSERT_TRUE(engine->wake({true, true}, loaded.store->current()).ok());
    if (sink.get(1).finish) break;
  }
  EXPECT_TRUE(waits.get().ok());
  EXPECT_EQ(sink.wait(1).tokens.size(), 60u);
  ASSERT_TRUE(engine->submit({make_request(2, {3}, 4)}).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(sink.get(2).tokens.empty());  // drained: nothing starts
  ASSERT_TRUE(engine->release().ok());
  EXPECT_EQ(sink.wait(2).tokens.size(), 4u);
}

TEST_F(SleepTest, T16_KvMemoryGoesBackToTheSystem) {
  const int64_t before = resident_bytes();
  auto engine = start_engine(loaded, &sink, {.kv_blocks = 8192});  // touched whole by make_parts
  const int64_t awake = resident_bytes();
  ASSERT_GT(awake, before + 60 * kMegabyte);
  ASSERT_TRUE(engine->sleep({.weights = false, .kv_cache = true}).ok());
  EXPECT_LT(resident_bytes(), before + 12 * kMegabyte);
  ASSERT_TRUE(engine->wake({true, true}, nullptr).ok());
  ASSERT_TRUE(engine->submit({request}).ok());
  Bench alone(loaded);
  expect_same_bits(sink.wait(1), alone.run(request));
}

}  // namespace
}  // namespace rlgen::engine
