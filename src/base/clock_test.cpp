#include "base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace rlgen {
namespace {

using std::chrono::milliseconds;

TEST(SystemClock, NeverGoesBackAndSleepsLongEnough) {
  const auto clock = make_system_clock();
  const auto start = clock->now();
  clock->sleep_until(start + milliseconds(5));
  EXPECT_GE(clock->now(), start + milliseconds(5));
}

TEST(SystemClock, PastDeadlineReturnsAtOnce) {
  const auto clock = make_system_clock();
  clock->sleep_until(clock->now() - std::chrono::hours(1));
}

TEST(ManualClock, StandsStillUntilMoved) {
  ManualClock clock;
  const auto start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(milliseconds(7));
  EXPECT_EQ(clock.now(), start + milliseconds(7));
  clock.advance(milliseconds(-3));
  EXPECT_EQ(clock.now(), start + milliseconds(7));
}

TEST(ManualClock, ReachedDeadlineReturnsAtOnce) {
  ManualClock clock(Clock::TimePoint(milliseconds(10)));
  clock.sleep_until(Clock::TimePoint(milliseconds(10)));
  EXPECT_EQ(clock.sleepers(), 0);
}

TEST(ManualClock, SleeperWakesOnlyAtItsDeadline) {
  ManualClock clock;
  std::atomic<bool> awake = false;
  std::thread sleeper([&] {
    clock.sleep_until(Clock::TimePoint(milliseconds(10)));
    awake = true;
  });
  while (clock.sleepers() == 0) std::this_thread::yield();
  clock.advance(milliseconds(9));
  EXPECT_EQ(clock.sleepers(), 1);
  EXPECT_FALSE(awake);
  clock.advance(milliseconds(1));
  sleeper.join();
  EXPECT_TRUE(awake);
  EXPECT_EQ(clock.sleepers(), 0);
}

}  // namespace
}  // namespace rlgen
