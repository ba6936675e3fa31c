#include "generation/seeds.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rlgen::generation {
namespace {

TEST(Seeds, FollowFromRunAndIdAlone) {
  EXPECT_EQ(line_seed(42, "a"), line_seed(42, "a"));
  EXPECT_NE(line_seed(42, "a"), line_seed(43, "a"));
  EXPECT_NE(line_seed(42, "a"), line_seed(42, "b"));
}

TEST(Seeds, StayTheSameFromReleaseToRelease) {
  EXPECT_EQ(line_seed(0, "0"), 6928768337335431);
  EXPECT_EQ(line_seed(7, "prompt-1"), 5929241468577043);
}

TEST(Seeds, DoNotCollideAndStayBelowTheLimit) {
  std::set<int64_t> seen;
  for (int i = 0; i < 10000; ++i) {
    const int64_t seed = line_seed(1, std::to_string(i));
    EXPECT_GE(seed, 0);
    EXPECT_LT(seed, kSeedLimit);
    EXPECT_TRUE(seen.insert(seed).second);
  }
  for (int i = 0; i < 100; ++i) {
    const int64_t seed = draw_seed();
    EXPECT_GE(seed, 0);
    EXPECT_LT(seed, kSeedLimit);
    EXPECT_TRUE(seen.insert(seed).second);
  }
}

}  // namespace
}  // namespace rlgen::generation
