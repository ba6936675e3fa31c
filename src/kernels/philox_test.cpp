#include "kernels/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace rlgen::kernels {
namespace {

using Words = std::array<uint32_t, 4>;

// Known-answer vectors published with the paper's library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, UsesTheUpper53BitsOfTheFirstTwoWords) {
  const Words words = philox({7, 0, 3, 0}, {42, 0});
  const uint64_t bits = uint64_t{words[1]} << 32 | words[0];
  EXPECT_EQ(uniform(42, 3, 7), std::ldexp(static_cast<double>(bits >> 11), -53));
}

TEST(Uniform, EveryPartOfTheKeyCounts) {
  std::set<double> values;
  for (uint64_t seed : {0ull, 1ull, 1ull << 32, 1ull << 63}) {
    for (uint32_t sample : {0u, 1u, 1u << 31}) {
      for (uint64_t position : {0ull, 1ull, 1ull << 32}) {
        values.insert(uniform(seed, sample, position));
      }
    }
  }
  EXPECT_EQ(values.size(), 4u * 3u * 3u);
}

// Sum of squares over 64 equal bins of 64,000 draws; 63 degrees of freedom, and 114 is beyond the
// 0.9999 quantile.
TEST(Uniform, IsFlat) {
  constexpr int kBins = 64;
  constexpr int kDraws = 64000;
  int count[kBins] = {};
  for (uint64_t position = 0; position < kDraws; ++position) {
    const double u = uniform(1, 0, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++count[static_cast<int>(u * kBins)];
  }
  double chi_square = 0.0;
  for (int c : count) chi_square += (c - 1000.0) * (c - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 114.0);
}

}  // namespace
}  // namespace rlgen::kernels
