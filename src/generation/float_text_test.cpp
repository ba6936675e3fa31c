#include "generation/float_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

namespace rlgen::generation {
namespace {

std::string text_of(float value) {
  std::string text;
  append_float(value, &text);
  return text;
}

TEST(FloatText, IsShortAndNeverAnInteger) {
  EXPECT_EQ(text_of(0.0f), "0.0");
  EXPECT_EQ(text_of(-0.0f), "-0.0");
  EXPECT_EQ(text_of(-3.0f), "-3.0");
  EXPECT_EQ(text_of(-0.1f), "-0.1");
  EXPECT_EQ(text_of(-1e-6f), "-1e-06");
  EXPECT_EQ(text_of(-0.44018968f), "-0.4401897");
}

TEST(FloatText, ReadsBackBitForBitThroughADouble) {
  uint64_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(state >> 32));
    if (!std::isfinite(value)) continue;
    const auto read = static_cast<float>(nlohmann::json::parse(text_of(value)).get<double>());
    ASSERT_EQ(std::bit_cast<uint32_t>(read), std::bit_cast<uint32_t>(value)) << text_of(value);
  }
}

TEST(FloatText, Extremes) {
  for (const float value :
       {std::numeric_limits<float>::max(), std::numeric_limits<float>::min(),
        std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::lowest()}) {
    EXPECT_EQ(static_cast<float>(nlohmann::json::parse(text_of(value)).get<double>()), value);
  }
}

}  // namespace
}  // namespace rlgen::generation
