#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

namespace rlgen {
namespace {

TEST(ThreadPool, CountsItsThreads) {
  EXPECT_EQ(ThreadPool(0).num_threads(), 1);
  EXPECT_EQ(ThreadPool(1).num_threads(), 1);
  EXPECT_EQ(ThreadPool(3).num_threads(), 3);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const int tasks : {0, 1, 2, 7, 1000}) {
      std::vector<int> calls(static_cast<std::size_t>(tasks));
      pool.run(tasks, [&](std::int64_t task, int) { ++calls[static_cast<std::size_t>(task)]; });
      EXPECT_EQ(calls, std::vector<int>(static_cast<std::size_t>(tasks), 1)) << threads;
    }
  }
}

TEST(ThreadPool, NegativeTaskCountRunsNothing) {
  ThreadPool pool(2);
  pool.run(-1, [](std::int64_t, int) { FAIL(); });
}

TEST(ThreadPool, OneThreadRunsInlineInOrder) {
  ThreadPool pool(1);
  const auto caller = std::this_thread::get_id();
  std::vector<std::int64_t> order;
  pool.run(5, [&](std::int64_t task, int thread) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(thread, 0);
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, ThreadNumbersAreNeverSharedAtOneTime) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<std::atomic<int>> inside(kThreads);
  std::atomic<bool> shared = false;
  for (int round = 0; round < 50; ++round) {
    pool.run(64, [&](std::int64_t, int thread) {
      if (inside.at(static_cast<std::size_t>(thread)).fetch_add(1) != 0) shared = true;
      std::this_thread::yield();
      inside.at(static_cast<std::size_t>(thread)).fetch_sub(1);
    });
  }
  EXPECT_FALSE(shared);
}

TEST(ThreadPool, TasksReallyOverlap) {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  pool.run(2, [&](std::int64_t, int) {
    arrived.fetch_add(1);
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, WakesThreadsThatSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> arrived = 0;
    pool.run(3, [&](std::int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 3) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 3);
  }
}

TEST(ThreadPool, SurvivesManyTinyRuns) {
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    std::int64_t sum = 0;
    for (int run = 0; run < 20000; ++run) {
      std::array<std::int64_t, 3> part{};
      pool.run(3, [&](std::int64_t task, int) { part.at(static_cast<std::size_t>(task)) = run; });
      sum += part[0] + part[1] + part[2];
    }
    EXPECT_EQ(sum, std::int64_t{3} * 20000 * 19999 / 2);
  }
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 100; ++i) ThreadPool pool(4);
}

TEST(ThreadPool, IdleThreadsUseNoTime) {
  ThreadPool pool(2);
  pool.run(16, [](std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(used, 0.1);
}

TEST(ThreadPool, EveryThreadComputesInTheModeOfTheRun) {
  ThreadPool pool(2);
  const std::uint64_t before = float_control_word() & kFloatModeBits;
  const ScopedFloatMode hostile(FloatMode::kFlush);
  const std::uint64_t hostile_word = float_control_word() & kFloatModeBits;
  for (const FloatMode mode : {FloatMode::kGradual, FloatMode::kFlush}) {
    std::uint64_t expected = 0;
    {
      const ScopedFloatMode scope(mode);
      expected = float_control_word() & kFloatModeBits;
    }
    std::array<std::uint64_t, 2> words{};
    std::atomic<int> arrived = 0;
    pool.run(
        2,
        [&](std::int64_t task, int) {
          words.at(static_cast<std::size_t>(task)) = float_control_word() & kFloatModeBits;
          arrived.fetch_add(1);
          while (arrived.load() < 2) std::this_thread::yield();
        },
        mode);
    EXPECT_EQ(words[0], expected);
    EXPECT_EQ(words[1], expected);
    EXPECT_EQ(float_control_word() & kFloatModeBits, hostile_word);
  }
  EXPECT_NE(hostile_word, before);
}

TEST(ThreadPoolDeathTest, NestedRunIsOurMistake) {
#ifndef NDEBUG
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.run(1, [&](std::int64_t, int) { pool.run(1, [](std::int64_t, int) {}); });
      },
      "nested");
#endif
}

}  // namespace
}  // namespace rlgen
