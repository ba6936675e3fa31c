#include "kernels/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace rlgen::kernels {
namespace {

// long double has 64 bits of significand on x86-64 and 113 on aarch64: libm there is the judge.
using Wide = long double;

double unit_of(Wide exact) {
  const double rounded = std::fabs(static_cast<double>(exact));
  if (rounded < std::numeric_limits<double>::min()) {
    return std::numeric_limits<double>::denorm_min();
  }
  return std::scalbn(std::numeric_limits<double>::epsilon(), std::ilogb(rounded));
}

double error_in_units(double got, Wide exact) {
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - exact) / unit_of(exact));
}

class MathTest : public testing::Test {
 protected:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  std::mt19937_64 random_{7};
};

constexpr int kTries = 20000;

TEST_F(MathTest, ExpIsWithinOneUnit) {
  double worst = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const double x = i % 2 == 0 ? uniform(-708.0, 709.7) : uniform(-1.0, 1.0);
    worst = std::max(worst, error_in_units(exp_of(x), std::exp(static_cast<Wide>(x))));
  }
  EXPECT_LT(worst, 1.0);
  RecordProperty("worst_units", std::to_string(worst));
}

TEST_F(MathTest, ExpOfSubnormalResultsIsWithinTwoUnits) {
  for (int i = 0; i < 1000; ++i) {
    const double x = uniform(-745.1, -708.4);
    EXPECT_LE(error_in_units(exp_of(x), std::exp(static_cast<Wide>(x))), 2.0) << x;
  }
}

TEST_F(MathTest, ExpAtTheEnds) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(exp_of(0.0), 1.0);
  EXPECT_EQ(exp_of(-0.0), 1.0);
  EXPECT_EQ(exp_of(710.0), infinity);
  EXPECT_EQ(exp_of(infinity), infinity);
  EXPECT_EQ(exp_of(-746.0), 0.0);
  EXPECT_EQ(exp_of(-infinity), 0.0);
  EXPECT_TRUE(std::isnan(exp_of(std::nan(""))));
}

TEST_F(MathTest, LogIsWithinOneUnit) {
  double worst = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const double x =
        i % 2 == 0 ? std::ldexp(uniform(0.5, 1.0), int(uniform(-1073, 1024))) : uniform(0.5, 2.0);
    worst = std::max(worst, error_in_units(log_of(x), std::log(static_cast<Wide>(x))));
  }
  for (int i = 1; i < 100; ++i) {
    const double x = 1.0 + std::ldexp(i % 2 == 0 ? 1.0 : -1.0, -i / 2 - 1);
    worst = std::max(worst, error_in_units(log_of(x), std::log(static_cast<Wide>(x))));
  }
  EXPECT_LT(worst, 1.0);
  RecordProperty("worst_units", std::to_string(worst));
}

TEST_F(MathTest, LogAtTheEnds) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(log_of(1.0), 0.0);
  EXPECT_EQ(log_of(0.0), -infinity);
  EXPECT_EQ(log_of(infinity), infinity);
  EXPECT_TRUE(std::isnan(log_of(-1.0)));
  EXPECT_TRUE(std::isnan(log_of(std::nan(""))));
}

// y log(x) in long double is good to 2^-64 of itself, which is too coarse a judge where it is
// large; there the power comes from repeated products.
TEST_F(MathTest, PowIsWithinOneUnit) {
  double worst = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const double base = i % 2 == 0 ? uniform(1e3, 1e8) : uniform(0.01, 10.0);
    const double exponent = uniform(-2.0, 2.0);
    const Wide exact = std::pow(static_cast<Wide>(base), static_cast<Wide>(exponent));
    worst = std::max(worst, error_in_units(pow_of(base, exponent), exact));
  }
  EXPECT_LT(worst, 1.0);
  RecordProperty("worst_units", std::to_string(worst));
}

TEST_F(MathTest, PowOfLargeExponents) {
  for (const int exponent : {100, 500, 900}) {
    for (const double base : {1.5, 1.75, 2.0, 0.75}) {
      Wide exact = 1;
      for (int i = 0; i < exponent; ++i) exact *= static_cast<Wide>(base);
      // Each product of the judge may be off by half of 2^-63.
      const double slack = exponent * 0x1p-11;
      EXPECT_LT(error_in_units(pow_of(base, exponent), exact), 1.0 + slack) << base << exponent;
    }
  }
}

TEST_F(MathTest, PowAtTheEnds) {
  EXPECT_EQ(pow_of(10000.0, 0.0), 1.0);
  EXPECT_EQ(pow_of(10000.0, 1.0), 10000.0);
  EXPECT_EQ(pow_of(1.0, 123.0), 1.0);
  EXPECT_EQ(pow_of(2.0, 2000.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(pow_of(2.0, -2000.0), 0.0);
  EXPECT_EQ(pow_of(2.0, 1e308), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(pow_of(0.0, 1.0)));
  EXPECT_TRUE(std::isnan(pow_of(-1.0, 1.0)));
  EXPECT_TRUE(std::isnan(pow_of(2.0, std::nan(""))));
}

TEST_F(MathTest, SinAndCosAreWithinOneUnit) {
  double worst = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const double limit = i % 3 == 0 ? 4.0 : i % 3 == 1 ? 4096.0 : 0x1p24;
    const auto x = static_cast<float>(uniform(-limit, limit));
    worst = std::max(worst, error_in_units(sin_of(x), std::sin(static_cast<Wide>(x))));
    worst = std::max(worst, error_in_units(cos_of(x), std::cos(static_cast<Wide>(x))));
  }
  EXPECT_LT(worst, 1.0);
  RecordProperty("worst_units", std::to_string(worst));
}

TEST_F(MathTest, SinAndCosNextToMultiplesOfHalfPi) {
  for (int k = 1; k < 2000; k += 7) {
    const auto near = static_cast<float>(k * 1.5707963267948966);
    for (const float x : {near, std::nextafter(near, 0.0f), std::nextafter(near, 1e9f)}) {
      EXPECT_LT(error_in_units(sin_of(x), std::sin(static_cast<Wide>(x))), 1.0) << x;
      EXPECT_LT(error_in_units(cos_of(x), std::cos(static_cast<Wide>(x))), 1.0) << x;
    }
  }
}

TEST_F(MathTest, SinAndCosAtTheEnds) {
  EXPECT_EQ(sin_of(0.0), 0.0);
  EXPECT_EQ(cos_of(0.0), 1.0);
  EXPECT_EQ(sin_of(1e-300), 1e-300);
  EXPECT_TRUE(std::isnan(sin_of(0x1p25)));
  EXPECT_TRUE(std::isnan(cos_of(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(cos_of(std::nan(""))));
}

}  // namespace
}  // namespace rlgen::kernels
