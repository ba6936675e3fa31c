#include "cli/progress.h"

#include <gtest/gtest.h>

namespace rlgen::cli {
namespace {

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(-1.0), "0:00");
  EXPECT_EQ(duration_text(41.4), "0:41");
  EXPECT_EQ(duration_text(725.0), "12:05");
  EXPECT_EQ(duration_text(10807.0), "3:00:07");
}

TEST(Progress, SaysWhatIsLeft) {
  ProgressNumbers numbers{.done = 20, .total = 50, .new_done = 10, .tokens = 400};
  numbers.running = 4;
  numbers.waiting = 26;
  numbers.seconds = 2.0;
  EXPECT_EQ(progress_text(numbers), "20/50 rollouts, 200 tok/s, 4 running, 26 waiting, 0:06 left");
  EXPECT_EQ(progress_bar(numbers, 10),
            "[####......] 20/50 rollouts, 200 tok/s, 4 running, 26 waiting, 0:06 left");
}

TEST(Progress, MakesNoPromiseWithoutARollout) {
  EXPECT_EQ(progress_text({.total = 5}), "0/5 rollouts, 0 tok/s, 0 running, 0 waiting");
  EXPECT_EQ(progress_bar({}, 4), "[....] 0/0 rollouts, 0 tok/s, 0 running, 0 waiting");
  EXPECT_EQ(progress_text({.done = 5, .total = 5, .new_done = 5, .seconds = 1.0}),
            "5/5 rollouts, 0 tok/s, 0 running, 0 waiting");
}

}  // namespace
}  // namespace rlgen::cli
