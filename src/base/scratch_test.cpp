#include "base/scratch.h"

#include <gtest/gtest.h>

namespace rlgen {
namespace {

TEST(Scratch, GrowsAndNeverShrinks) {
  std::vector<float> buffer;
  float* const first = grown(buffer, 3);
  first[2] = 5.0f;
  EXPECT_EQ(buffer.size(), 3u);
  EXPECT_EQ(grown(buffer, 2), first);
  EXPECT_EQ(grown(buffer, 0), first);
  EXPECT_EQ(buffer.size(), 3u);
  const float* const longer = grown(buffer, 1000);
  EXPECT_EQ(longer, buffer.data());
  EXPECT_EQ(buffer.size(), 1000u);
  EXPECT_EQ(longer[2], 5.0f);
  EXPECT_EQ(longer[999], 0.0f);
}

TEST(Scratch, NothingIsAskedOfAnEmptyBuffer) {
  std::vector<int> buffer;
  grown(buffer, 0);
  EXPECT_TRUE(buffer.empty());
}

}  // namespace
}  // namespace rlgen
