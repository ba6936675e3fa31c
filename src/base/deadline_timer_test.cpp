#include "base/deadline_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>

namespace rlgen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Waits until the action was called that often.
void wait_for_calls(const std::atomic<int>& calls, int count) {
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (calls < count && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(calls, count);
}

TEST(DeadlineTimer, ActsOnceForEachDeadlineThatCame) {
  ManualClock clock;
  std::atomic<int> calls{0};
  DeadlineTimer timer(&clock, [&] { ++calls; });
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(timer.set(clock.now() + seconds(5)).ok());
    clock.advance(seconds(4));
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(calls, round - 1);
    clock.advance(seconds(1));
    wait_for_calls(calls, round);
  }
  clock.advance(seconds(100));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(calls, 3);
}

TEST(DeadlineTimer, ADeadlineCanBeTakenBackAndReplaced) {
  ManualClock clock;
  std::atomic<int> calls{0};
  DeadlineTimer timer(&clock, [&] { ++calls; });
  ASSERT_TRUE(timer.set(clock.now() + seconds(1)).ok());
  timer.clear();
  clock.advance(seconds(2));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(timer.set(clock.now() + seconds(100)).ok());
  ASSERT_TRUE(timer.set(clock.now() - seconds(1)).ok());
  wait_for_calls(calls, 1);
}

TEST(DeadlineTimer, TheActionMaySetTheNextOneAndItsOwnerMayDieMeanwhile) {
  const auto clock = make_system_clock();
  std::atomic<int> calls{0};
  {
    DeadlineTimer* self = nullptr;
    DeadlineTimer timer(clock.get(), [&] {
      if (++calls < 4) {
        EXPECT_TRUE(self->set(clock->now() + milliseconds(2)).ok());
      }
    });
    self = &timer;
    ASSERT_TRUE(timer.set(clock->now() + milliseconds(2)).ok());
    wait_for_calls(calls, 4);
    ASSERT_TRUE(timer.set(clock->now() + seconds(3600)).ok());
  }
  EXPECT_EQ(calls, 4);
}

TEST(DeadlineTimer, SleepsWhileItWaits) {
  const auto clock = make_system_clock();
  DeadlineTimer timer(clock.get(), [] {});
  ASSERT_TRUE(timer.set(clock->now() + seconds(3600)).ok());
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_LT(double(std::clock() - before) / CLOCKS_PER_SEC, 0.02);
}

}  // namespace
}  // namespace rlgen
