#include "engine/schedule/growth.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace rlgen::engine {
namespace {

TEST(GrowthEstimate, BeginsWithHalfAndFollowsWhatEnds) {
  GrowthEstimate growth;
  EXPECT_EQ(growth.share(), 0.5);
  EXPECT_EQ(growth.expected(101), 51);
  for (int i = 0; i < 100; ++i) growth.ended(10, 1000);
  EXPECT_NEAR(growth.share(), 0.01, 1e-3);
  EXPECT_EQ(growth.expected(1), 1);
  EXPECT_EQ(growth.expected(0), 0);
  for (int i = 0; i < 100; ++i) growth.ended(1000, 1000);
  EXPECT_NEAR(growth.share(), 1.0, 2e-3);
  EXPECT_EQ(growth.expected(7), 7);
}

TEST(GrowthEstimate, LongLimitsWeighMore) {
  GrowthEstimate growth;
  for (int i = 0; i < 200; ++i) {
    growth.ended(1, 1);
    growth.ended(100, 1000);
  }
  EXPECT_NEAR(growth.share(), 0.1, 0.01);
}

TEST(GrowthEstimate, RisesWhereItFellShortAndNeverBeyondOne) {
  GrowthEstimate growth;
  for (int i = 0; i < 100; ++i) growth.ended(10, 1000);
  const double low = growth.share();
  growth.fell_short();
  EXPECT_NEAR(growth.share(), low + (1 - low) / 4, 1e-12);
  for (int i = 0; i < 1000; ++i) growth.fell_short();
  EXPECT_LE(growth.share(), 1.0);
  EXPECT_EQ(growth.expected(5), 5);
}

TEST(GrowthEstimate, NonsenseTeachesNothing) {
  GrowthEstimate growth;
  growth.ended(0, 10);
  growth.ended(11, 10);
  EXPECT_EQ(growth.share(), 0.5);
}

TEST(PeakNeed, LooksAtEachEnd) {
  std::vector<BlockNeed> needs;
  EXPECT_EQ(peak_need(&needs, 16), 0);
  // Before the short one ends each has made 16; then it gives back 3, and the other needs 64.
  needs = {{.due = 1, .growth = 64}, {.due = 0, .growth = 16, .returned = 3}};
  EXPECT_EQ(peak_need(&needs, 16), 3);
  needs = {{.due = 1, .growth = 96}, {.due = 0, .growth = 16, .returned = 3}};
  EXPECT_EQ(peak_need(&needs, 16), 4);
  needs = {{.due = 5, .growth = 0}, {.due = 2, .growth = 0, .returned = 9}};
  EXPECT_EQ(peak_need(&needs, 16), 7);
}

// A pool that is simulated token by token, without rounding to blocks.
RC_GTEST_PROP(PeakNeed, IsThatOfARun, ()) {
  const auto count = *rc::gen::inRange(0, 9);
  std::vector<BlockNeed> needs;
  for (int i = 0; i < count; ++i) {
    needs.push_back({.due = *rc::gen::inRange(0, 4),
                     .growth = *rc::gen::inRange(0, 30),
                     .returned = *rc::gen::inRange(0, 10)});
  }
  int64_t peak = 0;
  for (int32_t made = 0; made <= 30; ++made) {
    int64_t need = 0;
    for (const BlockNeed& one : needs) {
      need += one.growth >= made ? one.due + made : -one.returned;
    }
    peak = std::max(peak, need);
  }
  RC_ASSERT(peak_need(&needs, 1) == peak);
}

}  // namespace
}  // namespace rlgen::engine
