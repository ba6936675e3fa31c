#include "cli/bench/shard_timing.h"

#include <gtest/gtest.h>

namespace rlgen::cli {
namespace {

StepRecord step(int64_t milliseconds, int64_t tokens, int64_t keys) {
  return {.time = std::chrono::steady_clock::time_point(std::chrono::milliseconds(milliseconds)),
          .tokens = tokens,
          .keys = keys};
}

TEST(SteadyWindow, LeavesOutPrefillAndTheEnd) {
  const SteadyWindow window = steady_window(
      {step(100, 1, 0), step(200, 2, 0), step(210, 2, 20), step(220, 2, 22), step(225, 1, 12)}, 2);
  EXPECT_EQ(window.steps, 2);
  EXPECT_EQ(window.tokens, 4);
  EXPECT_EQ(window.keys, 42);
  EXPECT_NEAR(window.seconds, 0.020, 1e-9);
}

TEST(SteadyWindow, NothingSteady) {
  EXPECT_EQ(steady_window({}, 2).steps, 0);
  EXPECT_EQ(steady_window({step(1, 2, 0), step(2, 1, 5)}, 2).steps, 0);
}

TEST(FullStepSeconds, AreThoseInWhichEverySequenceDecodes) {
  const std::vector<double> seconds = full_step_seconds(
      {step(100, 2, 0), step(110, 2, 20), step(115, 1, 10), step(135, 2, 24), step(140, 1, 12)}, 2);
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_NEAR(seconds[0], 0.010, 1e-9);
  EXPECT_NEAR(seconds[1], 0.020, 1e-9);
}

}  // namespace
}  // namespace rlgen::cli
