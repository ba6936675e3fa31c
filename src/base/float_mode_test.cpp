#include "base/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>
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
