#include "kernels/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rlgen::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2High = 0x1.62e42fefa38p-1;  // 42 bits: exact times a binary exponent
constexpr double kLn2Low = 0x1.ef35793c7673p-45;
constexpr double kRoundMagic = 0x1.8p52;

// An unevaluated sum, |low| at most half a unit of high.
struct Double2 {
  double high;
  double low;
};

// Exact where |a| >= |b| or a is 0.
Double2 fast_sum(double a, double b) {
  const double high = a + b;
  return {high, b - (high - a)};
}

Double2 product(double a, double b) {
  const double high = a * b;
  return {high, std::fma(a, b, -high)};
}

double nearest_integer(double x) { return (x + kRoundMagic) - kRoundMagic; }

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// sum of c[i] x^i.
template <int kCount>
double polynomial(const double (&c)[kCount], double x) {
  double sum = c[kCount - 1];
  for (int i = kCount - 2; i >= 0; --i) sum = std::fma(sum, x, c[i]);
  return sum;
}

// x = 2^exponent * m with m in [sqrt(1/2), sqrt(2)); x is positive and finite.
struct Split {
  int exponent;
  double m;
};

Split split(double x) {
  int shift = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    shift = 54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  return {exponent - shift, m};
}

// log m = 2s + s^3 (2/3 + 2/5 s^2 + 2/7 s^4 + ...), s = (m - 1) / (m + 1), |s| < 0.172. The first
// two terms are kept in two doubles, the rest is below 2^-13 of the whole.
Double2 log_pair(double x) {
  const auto [exponent, m] = split(x);
  const double f = m - 1.0;
  const Double2 divisor = fast_sum(2.0, f);
  const double s = f / divisor.high;
  const double s_low = (std::fma(-s, divisor.high, f) - s * divisor.low) / divisor.high;
  const Double2 square = product(s, s);
  const double z = square.high;
  const double z_low = std::fma(2.0 * s, s_low, square.low);
  constexpr double kTail[] = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                              2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  Double2 factor = fast_sum(0x1.5555555555555p-1, z * polynomial(kTail, z));
  factor.low += 0x1.5555555555555p-55;
  Double2 cube = product(z, factor.high);
  cube.low += std::fma(z, factor.low, z_low * factor.high);
  Double2 tail = product(s, cube.high);
  tail.low += std::fma(s, cube.low, s_low * cube.high);
  Double2 log_m = fast_sum(2.0 * s, tail.high);
  log_m.low += 2.0 * s_low + tail.low;
  const double e = exponent;
  Double2 sum = exponent == 0 ? log_m : fast_sum(e * kLn2High, log_m.high);
  if (exponent != 0) sum.low += std::fma(e, kLn2Low, log_m.low);
  return fast_sum(sum.high, sum.low);
}

// e^(x.high + x.low) = 2^n e^r, r within half of ln 2, by the power series.
double exp_pair(Double2 x) {
  if (x.high > 710.0) return kInfinity;
  if (x.high < -746.0) return 0.0;
  const double n = nearest_integer(x.high * 0x1.71547652b82fep+0);
  const double r_high = std::fma(-n, kLn2High, x.high);
  const double r_low = std::fma(-n, kLn2Low, x.low);
  const double r = r_high + r_low;
  const double rest = (r_high - r) + r_low;
  constexpr double kSeries[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  const double tail = std::fma(r * r, polynomial(kSeries, r), rest);
  const double e = 1.0 + (r + tail);
  const int first = static_cast<int>(n) / 2;
  return e * power_of_two(first) * power_of_two(static_cast<int>(n) - first);
}

// x = quarter * pi/2 + r.high + r.low, |r| up to pi/4. The parts of pi/2 have 29 bits, so that
// their products with quarter are exact.
struct Reduced {
  int quarter;
  Double2 r;
};

Reduced reduce(double x) {
  const double k = nearest_integer(x * 0x1.45f306dc9c883p-1);
  const double first = std::fma(-k, 0x1.921fb54p+0, x);
  const double second = k * 0x1.10b4611p-30;
  const double high = first - second;
  const double low = std::fma(-k, 0x1.4c4c6628b80dcp-59, (first - high) - second);
  return {static_cast<int>(static_cast<std::int64_t>(k) & 3), fast_sum(high, low)};
}

double sin_near_zero(Double2 r) {
  constexpr double kSeries[] = {
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double z = r.high * r.high;
  const double cube = r.high * z;
  const double low = std::fma(-0.5 * z, r.low, r.low);
  return r.high + std::fma(cube, polynomial(kSeries, z), low);
}

double cos_near_zero(Double2 r) {
  constexpr double kSeries[] = {
      1.0 / 24,        -1.0 / 720,         1.0 / 40320,         -1.0 / 3628800,
      1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  const double z = r.high * r.high;
  const double z_low = std::fma(r.high, r.high, -z);
  const double half = 0.5 * z;
  const double head = 1.0 - half;
  const double head_low = (1.0 - head) - half;
  const double low = std::fma(-r.high, r.low, -0.5 * z_low);
  return head + (head_low + std::fma(z * z, polynomial(kSeries, z), low));
}

// sin(x + turn * pi/2).
double sin_turned(double x, int turn) {
  if (!(x >= -0x1p24 && x <= 0x1p24)) return kNan;
  const Reduced reduced = reduce(x);
  const int quarter = (reduced.quarter + turn) & 3;
  const double value = quarter % 2 == 0 ? sin_near_zero(reduced.r) : cos_near_zero(reduced.r);
  return quarter >= 2 ? -value : value;
}

}  // namespace

double exp_of(double x) { return x == x ? exp_pair({x, 0.0}) : kNan; }

double log_of(double x) {
  if (!(x >= 0.0)) return kNan;
  if (x == 0.0) return -kInfinity;
  if (x == kInfinity) return kInfinity;
  return log_pair(x).high;
}

double pow_of(double base, double exponent) {
  const bool valid = base > 0.0 && base < kInfinity && exponent - exponent == 0.0;
  if (!valid) return kNan;
  const Double2 log = log_pair(base);
  const double high = exponent * log.high;
  if (high - high != 0.0) return high > 0.0 ? kInfinity : 0.0;
  const double low = std::fma(exponent, log.high, -high) + exponent * log.low;
  return exp_pair({high, low});
}

double sin_of(double x) { return sin_turned(x, 0); }
double cos_of(double x) { return sin_turned(x, 1); }

}  // namespace rlgen::kernels
