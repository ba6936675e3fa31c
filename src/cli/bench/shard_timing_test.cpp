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

}  // namespace
}  // namespace rlgen::cli
