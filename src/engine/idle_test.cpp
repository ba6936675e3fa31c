#include <gtest/gtest.h>
#include <sched.h>

#include <ctime>
#include <thread>

#include "engine/engine.h"
#include "engine/test_engine.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// Seconds of CPU time that this process took while this thread slept for `seconds`.
double cpu_time_of_sleep(double seconds) {
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return double(std::clock() - before) / CLOCKS_PER_SEC;
}

// Before the first request, after work, and paused in the middle of it.
TEST(Idle, AnEngineWithoutWorkTakesNoTime) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  for (const int32_t threads : {1, 2, 4}) {
    const Settings settings{.threads = threads};
    Collector sink;
    auto engine =
        *Engine::create(make_options(loaded, settings), make_parts(loaded, settings, &sink));
    ASSERT_TRUE(engine->set_weights(loaded.store->current(), KvPolicy::kRecompute).ok());
    EXPECT_LT(cpu_time_of_sleep(0.25), 0.005) << threads;
    ASSERT_TRUE(engine->submit({greedy_request(1, {3}, 200)}).ok());
    sink.wait(1);
    EXPECT_LT(cpu_time_of_sleep(threads == 2 ? 1.0 : 0.25), threads == 2 ? 0.02 : 0.005) << threads;
    sink.set_slow(true);
    ASSERT_TRUE(engine->submit({greedy_request(2, {3}, 200)}).ok());
    sink.wait_for_tokens(2, 3);
    ASSERT_TRUE(engine->pause(PauseMode::kKeep).ok());
    EXPECT_LT(cpu_time_of_sleep(0.25), 0.005) << threads;
  }
}

// An engine that is started where only one CPU may be used stays there, and ends its work though it
// has more threads than that.
TEST(Idle, ThreadsStayWithinTheAffinityOfWhoeverStartsTheEngine) {
  const Loaded loaded = load_checkpoint("table_prefers_six");
  std::thread([&] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    CPU_SET(cpu, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    Collector sink;
    const Settings settings{.threads = 3};
    auto engine =
        *Engine::create(make_options(loaded, settings), make_parts(loaded, settings, &sink));
    ASSERT_TRUE(engine->set_weights(loaded.store->current(), KvPolicy::kRecompute).ok());
    ASSERT_TRUE(engine->submit({greedy_request(1, {3}, 100), greedy_request(2, {4}, 100)}).ok());
    EXPECT_EQ(sink.wait(1).tokens.size(), 100u);
    EXPECT_EQ(sink.wait(2).tokens.size(), 100u);
    EXPECT_LT(cpu_time_of_sleep(0.25), 0.005);
  }).join();
}

}  // namespace
}  // namespace rlgen::engine
