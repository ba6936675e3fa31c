#include "tensor/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float_mode.h"

namespace rlgen {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

bool is_nan_bf16(std::uint16_t value) { return (value & 0x7fffu) > 0x7f80u; }
bool is_nan_f16(std::uint16_t value) { return (value & 0x7fffu) > 0x7c00u; }

// The value of a binary16 by its definition, in double.
double f16_value(std::uint16_t value) {
  const double sign = (value & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = (value >> 10) & 0x1f;
  const int fraction = value & 0x3ff;
  if (exponent == 0x1f) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto value = static_cast<std::uint16_t>(i);
    const std::uint16_t back = bf16_from_float(float_from_bf16(value));
    ASSERT_EQ(back, is_nan_bf16(value) ? (value | 0x40u) : value) << i;
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(bf16_from_float(from_bits(0x3f800000)), 0x3f80);
  EXPECT_EQ(bf16_from_float(from_bits(0x3f808000)), 0x3f80);
  EXPECT_EQ(bf16_from_float(from_bits(0x3f808001)), 0x3f81);
  EXPECT_EQ(bf16_from_float(from_bits(0x3f818000)), 0x3f82);
  EXPECT_EQ(bf16_from_float(from_bits(0x3f817fff)), 0x3f81);
  EXPECT_EQ(bf16_from_float(from_bits(0xbf818000)), 0xbf82);
}

TEST(BFloat16, EdgesOfTheRange) {
  EXPECT_EQ(bf16_from_float(0.0f), 0x0000);
  EXPECT_EQ(bf16_from_float(-0.0f), 0x8000);
  EXPECT_EQ(bf16_from_float(from_bits(0x7f7fffff)), 0x7f80);
  EXPECT_EQ(bf16_from_float(from_bits(0x7f7f7fff)), 0x7f7f);
  EXPECT_EQ(bf16_from_float(from_bits(0xff800000)), 0xff80);
  EXPECT_EQ(bf16_from_float(from_bits(0x00000001)), 0x0000);
  EXPECT_EQ(bf16_from_float(from_bits(0x00008001)), 0x0001);
  EXPECT_EQ(bf16_from_float(from_bits(0x007fffff)), 0x0080);
}

TEST(BFloat16, NanStaysNanAndBecomesQuiet) {
  EXPECT_EQ(bf16_from_float(from_bits(0x7f800001)), 0x7fc0);
  EXPECT_EQ(bf16_from_float(from_bits(0xff800001)), 0xffc0);
  EXPECT_EQ(bf16_from_float(from_bits(0x7fffffff)), 0x7fff);
}

TEST(BFloat16, FloatModesDoNotMatter) {
  std::uint16_t rounded = 0;
  float widened = 0.0f;
  {
    const ScopedFloatMode mode(FloatMode::kFlush);
    rounded = bf16_from_float(from_bits(0x00008001));
    widened = float_from_bf16(0x0001);
  }
  EXPECT_EQ(rounded, 0x0001);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(widened), 0x00010000u);
}

TEST(Float16, EveryValueIsExactAndSurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto value = static_cast<std::uint16_t>(i);
    const float wide = float_from_f16(value);
    if (is_nan_f16(value)) {
      ASSERT_TRUE(std::isnan(wide)) << i;
      ASSERT_EQ(f16_from_float(wide), value | 0x200u) << i;
    } else {
      ASSERT_EQ(static_cast<double>(wide), f16_value(value)) << i;
      ASSERT_EQ(std::signbit(wide), (value & 0x8000u) != 0) << i;
      ASSERT_EQ(f16_from_float(wide), value) << i;
    }
  }
}

TEST(Float16, RoundsBetweenNeighboursToNearestEven) {
  for (std::uint32_t i = 0; i < 0x7bff; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const auto middle = static_cast<float>((f16_value(low) + f16_value(high)) / 2);
    const std::uint16_t even = (i & 1u) == 0 ? low : high;
    ASSERT_EQ(f16_from_float(middle), even) << i;
    ASSERT_EQ(f16_from_float(std::nextafterf(middle, 0.0f)), low) << i;
    ASSERT_EQ(f16_from_float(std::nextafterf(middle, 1e9f)), high) << i;
    ASSERT_EQ(f16_from_float(-middle), even | 0x8000u) << i;
  }
}

TEST(Float16, EdgesOfTheRange) {
  EXPECT_EQ(f16_from_float(65504.0f), 0x7bff);
  EXPECT_EQ(f16_from_float(65519.996f), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_float(1e30f), 0x7c00);
  EXPECT_EQ(f16_from_float(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f16_from_float(std::ldexp(1.0f, -25)), 0x0000);
  EXPECT_EQ(f16_from_float(std::nextafterf(std::ldexp(1.0f, -25), 1.0f)), 0x0001);
  EXPECT_EQ(f16_from_float(-1e-30f), 0x8000);
  EXPECT_EQ(f16_from_float(from_bits(0x00000001)), 0x0000);
  EXPECT_EQ(f16_from_float(from_bits(0x7f800001)), 0x7e00);
}

}  // namespace
}  // namespace rlgen
