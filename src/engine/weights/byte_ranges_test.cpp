#include "engine/weights/byte_ranges.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace rlgen::engine {
namespace {

TEST(ByteRanges, MergesNeighboursAndRefusesOverlap) {
  ByteRanges ranges;
  EXPECT_TRUE(ranges.add(10, 20));
  EXPECT_TRUE(ranges.add(0, 10));
  EXPECT_FALSE(ranges.add(19, 25));
  EXPECT_FALSE(ranges.add(5, 6));
  EXPECT_TRUE(ranges.add(30, 40));
  EXPECT_EQ(ranges.first_gap(), 20u);
  EXPECT_TRUE(ranges.add(20, 30));
  EXPECT_EQ(ranges.ranges().size(), 1u);
  EXPECT_EQ(ranges.covered(), 40u);
  EXPECT_TRUE(ranges.add(7, 7));
  EXPECT_EQ(ranges.first_gap(), 40u);
}

RC_GTEST_PROP(ByteRangesProperty, AgreesWithABitmap, ()) {
  ByteRanges ranges;
  std::vector<bool> bits(64, false);
  for (int i = 0; i < 60; ++i) {
    const size_t begin = *rc::gen::resize(100, rc::gen::inRange<size_t>(0, 64));
    const size_t end = *rc::gen::resize(100, rc::gen::inRange<size_t>(begin, 65));
    bool taken = false;
    for (size_t b = begin; b < end; ++b) taken = taken || bits[b];
    RC_ASSERT(ranges.add(begin, end) == !taken);
    if (!taken) std::fill(bits.begin() + long(begin), bits.begin() + long(end), true);
  }
  std::vector<bool> rebuilt(64, false);
  size_t last_end = 0;
  bool first = true;
  for (const auto& [begin, end] : ranges.ranges()) {
    RC_ASSERT(first || begin > last_end);
    first = false;
    last_end = end;
    std::fill(rebuilt.begin() + long(begin), rebuilt.begin() + long(end), true);
  }
  RC_ASSERT(rebuilt == bits);
  RC_ASSERT(ranges.covered() == size_t(std::count(bits.begin(), bits.end(), true)));
}

}  // namespace
}  // namespace rlgen::engine
