#include "contract/limits.h"

#include <gtest/gtest.h>

namespace rlgen {
namespace {

TEST(Limits, BothEndsBelong) {
  constexpr WholeRange kRange{-1, 3};
  EXPECT_TRUE(kRange.contains(-1) && kRange.contains(3));
  EXPECT_FALSE(kRange.contains(-2) || kRange.contains(4));
  EXPECT_EQ(kRange.rule(), "a whole number from -1 to 3");
  EXPECT_TRUE(kSeedRange.contains(kSeedRange.high));
}

TEST(Limits, OnlyMultiplesOfTheStep) {
  EXPECT_TRUE(kBlockSizeRange.contains(16) && kBlockSizeRange.contains(1024));
  for (const int64_t wrong : {0, 8, 24, 1025, 1040, -16}) {
    EXPECT_FALSE(kBlockSizeRange.contains(wrong)) << wrong;
  }
  EXPECT_EQ(kBlockSizeRange.rule(), "a multiple of 16 from 16 to 1024");
}

}  // namespace
}  // namespace rlgen
