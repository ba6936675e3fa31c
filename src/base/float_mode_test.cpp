#include "base/float_mode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cstdlib>
#include <limits>

namespace rlgen {
namespace {

float add(float a, float b) {
  volatile float x = a;
  volatile float y = b;
  return x + y;
}

float multiply(float a, float b) {
  volatile float x = a;
  volatile float y = b;
  return x * y;
}

constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr float kSmallestNormal = std::numeric_limits<float>::min();

TEST(ScopedFloatMode, GradualKeepsSubnormals) {
  const ScopedFloatMode mode(FloatMode::kGradual);
  EXPECT_EQ(add(kSmallest, kSmallest), 2 * kSmallest);
  EXPECT_EQ(multiply(kSmallestNormal, 0.5f), kSmallestNormal / 2);
}

TEST(ScopedFloatMode, FlushDropsSubnormals) {
#if defined(__x86_64__) || defined(__aarch64__)
  float operand = 1.0f;
  float result = 1.0f;
  {
    const ScopedFloatMode mode(FloatMode::kFlush);
    operand = multiply(kSmallest, 16777216.0f);
    result = multiply(kSmallestNormal, 0.5f);
  }
  EXPECT_EQ(operand, 0.0f);
  EXPECT_EQ(result, 0.0f);
#endif
}

TEST(ScopedFloatMode, OverridesAHostileRoundingModeAndPutsItBack) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  float inside = 0.0f;
  {
    const ScopedFloatMode mode(FloatMode::kGradual);
    inside = add(1.0f, 1e-10f);
  }
  const int after = std::fegetround();
  const float outside = add(1.0f, 1e-10f);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(inside, 1.0f);
  EXPECT_EQ(after, FE_UPWARD);
  EXPECT_GT(outside, 1.0f);
}

// The C library reads numbers as the thread rounds.
TEST(ScopedFloatMode, NumbersAreReadToTheNearest) {
  constexpr const char* kText = "0.6000000536441804";
  const double expected = std::strtod(kText, nullptr);
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    double read = 0.0;
    {
      const ScopedFloatMode mode(FloatMode::kGradual);
      read = std::strtod(kText, nullptr);
    }
    EXPECT_EQ(std::fegetround(), rounding);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(read, expected);
  }
  std::fesetround(FE_DOWNWARD);
  const double outside = std::strtod(kText, nullptr);
  std::fesetround(FE_TONEAREST);
  EXPECT_LT(outside, expected);
}

TEST(ScopedFloatMode, OverridesHostileFlushModesAndPutsThemBack) {
  const std::uint64_t before = float_control_word();
  float inside = 0.0f;
  std::uint64_t nested = 0;
  std::uint64_t after = 0;
  {
    const ScopedFloatMode hostile(FloatMode::kFlush);
    nested = float_control_word();
    {
      const ScopedFloatMode mode(FloatMode::kGradual);
      inside = add(kSmallest, kSmallest);
    }
    after = float_control_word();
  }
  const std::uint64_t restored = float_control_word();
  EXPECT_EQ(inside, 2 * kSmallest);
  EXPECT_EQ(after & kFloatModeBits, nested & kFloatModeBits);
  EXPECT_EQ(restored & kFloatModeBits, before & kFloatModeBits);
}

// As bits, since comparisons are not safe from the modes either.
std::uint32_t nearest_bits(double value) {
  return std::bit_cast<std::uint32_t>(nearest_float(value));
}

TEST(NearestFloat, IsTheSameInEveryMode) {
  const auto expect_nearest = [](int rounding) {
    EXPECT_EQ(nearest_bits(0.1), 0x3dcccccdu) << rounding;
    EXPECT_EQ(nearest_bits(-0.1), 0xbdcccccdu) << rounding;
    EXPECT_EQ(nearest_bits(0.7), 0x3f333333u) << rounding;
    EXPECT_EQ(nearest_bits(0x1.000001p0), 0x3f800000u) << rounding;
    EXPECT_EQ(nearest_bits(0x1.0000010000001p0), 0x3f800001u) << rounding;
    EXPECT_EQ(nearest_bits(0x1p-140), 0x200u) << rounding;
    EXPECT_EQ(nearest_bits(0x1.8p-149), 2u) << rounding;
  };
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    expect_nearest(rounding);
    EXPECT_EQ(std::fegetround(), rounding);
  }
  std::fesetround(FE_TONEAREST);
  const ScopedFloatMode hostile(FloatMode::kFlush);
  expect_nearest(-1);
}

TEST(ScopedFloatMode, SurvivesUnmaskedExceptions) {
#if defined(__x86_64__)
  const std::uint64_t before = float_control_word();
  set_float_control_word(0);
  float quotient = 0.0f;
  {
    const ScopedFloatMode mode(FloatMode::kGradual);
    quotient = multiply(1e-30f, 1e-30f);
  }
  set_float_control_word(before);
  EXPECT_EQ(quotient, 0.0f);
#endif
}

}  // namespace
}  // namespace rlgen
