#include <algorithm>
#include <cmath>

#include "kernels/kernel_test.h"
#include "kernels/math.h"

namespace rlgen::kernels {
namespace {

class Elementwise : public OnEachIsa {
 protected:
  const KernelTable& twin() const { return *kernel_table(Isa::kScalar); }
};
INSTANTIATE_TEST_SUITE_P(Isas, Elementwise, testing::ValuesIn(available_isas()), name_of_isa_case);

using Floats = std::vector<float>;
constexpr size_t kLongest = 35;

// Calls f(n, shift) for every length around one and two vectors, at three starts.
template <typename F>
void for_lengths(F f) {
  for (size_t n = 0; n <= kLongest; ++n) {
    for (const size_t shift : {0, 1, 7}) f(n, shift);
  }
  f(576, 0);
}

// [shift, shift + n) of memory that ends there.
Floats sample(TestNumbers& numbers, size_t n, size_t shift, int kind) {
  Floats all(n + shift);
  for (float& x : all) {
    x = kind == 0   ? numbers.between(-20.0f, 20.0f)
        : kind == 1 ? numbers.hostile_float()
                    : numbers.any_float();
  }
  return all;
}

TEST_P(Elementwise, RmsNormEqualsThePlainLoop) {
  TestNumbers numbers(1);
  for_lengths([&](size_t n, size_t shift) {
    if (n == 0) return;
    const Floats x = sample(numbers, n, shift, 0);
    const Floats weight = sample(numbers, n, shift, 0);
    Floats out(n + shift + 1, 7.0f);
    table().rms_norm(x.data() + shift, weight.data() + shift, int64_t(n), 1e-5f,
                     out.data() + shift);
    float lanes[16] = {};
    for (size_t i = 0; i < n; ++i)
      lanes[i % 16] = std::fma(x[shift + i], x[shift + i], lanes[i % 16]);
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
    }
    const float r = 1.0f / std::sqrt(lanes[0] / static_cast<float>(n) + 1e-5f);
    Floats want(n + shift + 1, 7.0f);
    for (size_t i = shift; i < n + shift; ++i) want[i] = x[i] * r * weight[i];
    EXPECT_TRUE(all_same_bits(out, want)) << n;
  });
}

TEST_P(Elementwise, RmsNormMayWriteOverItsInput) {
  TestNumbers numbers(2);
  const Floats x = numbers.floats(50);
  const Floats weight = numbers.floats(50);
  Floats apart(50);
  table().rms_norm(x.data(), weight.data(), 50, 1e-6f, apart.data());
  Floats in_place = x;
  table().rms_norm(in_place.data(), weight.data(), 50, 1e-6f, in_place.data());
  EXPECT_EQ(in_place, apart);
}

TEST_P(Elementwise, AddScaledFusesItsTwoSteps) {
  TestNumbers numbers(13);
  for_lengths([&](size_t n, size_t shift) {
    const Floats x = sample(numbers, n, shift, int(n % 3));
    const Floats y = sample(numbers, n, shift, int(n % 3));
    const float scale = numbers.between(-2.0f, 2.0f);
    Floats sum = x;
    sum.push_back(7.0f);
    table().add_scaled(sum.data() + shift, y.data() + shift, scale, int64_t(n));
    Floats want = x;
    want.push_back(7.0f);
    for (size_t i = shift; i < n + shift; ++i) want[i] = std::fma(y[i], scale, x[i]);
    EXPECT_TRUE(all_same_bits(sum, want)) << n;
  });
}

TEST_P(Elementwise, Add) {
  TestNumbers numbers(3);
  for_lengths([&](size_t n, size_t shift) {
    const Floats x = sample(numbers, n, shift, int(n % 3));
    const Floats y = sample(numbers, n, shift, int(n % 3));
    Floats sum = x;
    sum.push_back(7.0f);
    table().add(sum.data() + shift, y.data() + shift, int64_t(n));
    Floats want = x;
    want.push_back(7.0f);
    for (size_t i = shift; i < n + shift; ++i) want[i] = x[i] + y[i];
    EXPECT_TRUE(all_same_bits(sum, want));
  });
}

TEST_P(Elementwise, ClipBoundsNumbersAndKeepsNan) {
  TestNumbers numbers(14);
  for_lengths([&](size_t n, size_t shift) {
    const Floats x = sample(numbers, n, shift, int(n % 3));
    Floats clipped = x;
    clipped.push_back(7.0f);
    table().clip(clipped.data() + shift, 2.5f, int64_t(n));
    Floats want = x;
    want.push_back(7.0f);
    for (size_t i = shift; i < n + shift; ++i) {
      const float below = 2.5f < x[i] ? 2.5f : x[i];
      want[i] = -2.5f > below ? -2.5f : below;
    }
    EXPECT_TRUE(all_same_bits(clipped, want)) << n;
  });
}

TEST_P(Elementwise, ActivationsHaveTheBitsOfTheScalarTwin) {
  TestNumbers numbers(4);
  for_lengths([&](size_t n, size_t shift) {
    for (int kind = 0; kind < 3; ++kind) {
      const Floats gate = sample(numbers, n, shift, kind);
      const Floats up = sample(numbers, n, shift, kind);
      for (const auto kernel : {&KernelTable::silu_mul, &KernelTable::gelu_tanh_mul}) {
        Floats got(n + shift + 1, 7.0f);
        Floats want = got;
        (table().*kernel)(gate.data() + shift, up.data() + shift, int64_t(n), got.data() + shift);
        (twin().*kernel)(gate.data() + shift, up.data() + shift, int64_t(n), want.data() + shift);
        EXPECT_TRUE(all_same_bits(got, want));
        EXPECT_EQ(got.back(), 7.0f);
      }
    }
  });
}

// exp as the kernels have it, of one number.
float exp_of_row(const KernelTable& table, float x) {
  const float row[2] = {0.0f, x};
  float p[2];
  table.row_sums(row, 2, p, nullptr);
  return p[1];
}

// Its definition, where exp is of a negative number: gates of 0 and above.
TEST_P(Elementwise, ClampedSwigluEqualsThePlainLoop) {
  TestNumbers numbers(15);
  for_lengths([&](size_t n, size_t shift) {
    Floats gate = sample(numbers, n, shift, 0);
    for (float& g : gate) g = std::fabs(g);
    const Floats up = sample(numbers, n, shift, 0);
    Floats got(n + shift + 1, 7.0f);
    Floats want = got;
    table().clamped_swiglu(gate.data() + shift, up.data() + shift, int64_t(n), 1.702f, 7.0f,
                           got.data() + shift);
    for (size_t i = shift; i < n + shift; ++i) {
      const float g = std::min(gate[i], 7.0f);
      const float u = std::clamp(up[i], -7.0f, 7.0f);
      want[i] = (u + 1.0f) * (g / (1.0f + exp_of_row(twin(), g * -1.702f)));
    }
    EXPECT_TRUE(all_same_bits(got, want)) << n;
  });
}

TEST_P(Elementwise, ClampedSwigluHasTheBitsOfTheScalarTwin) {
  TestNumbers numbers(16);
  for_lengths([&](size_t n, size_t shift) {
    for (int kind = 0; kind < 3; ++kind) {
      const Floats gate = sample(numbers, n, shift, kind);
      const Floats up = sample(numbers, n, shift, kind);
      Floats got(n + shift + 1, 7.0f);
      Floats want = got;
      table().clamped_swiglu(gate.data() + shift, up.data() + shift, int64_t(n), 1.5f, 4.0f,
                             got.data() + shift);
      twin().clamped_swiglu(gate.data() + shift, up.data() + shift, int64_t(n), 1.5f, 4.0f,
                            want.data() + shift);
      EXPECT_TRUE(all_same_bits(got, want));
    }
  });
}

// Units in the last place of a float of the size of `exact`, a subnormal one at least.
double units(float got, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

// The error of exp (1 unit), of the sum, of the division and of what goes into exp: 0.5 units of an
// argument of size a are a * 2^-24 of the result, that is a / 2 units.
double allowed_units(double argument, double roundings) {
  return 1.0 + roundings + std::fabs(argument) * roundings;
}

TEST_P(Elementwise, SiluIsClose) {
  for (float v = -86.0f; v < 100.0f; v += 0.0371f) {
    const float one = 1.0f;
    float got = 0.0f;
    table().silu_mul(&v, &one, 1, &got);
    const double exact = static_cast<double>(v) / (1.0 + std::exp(-static_cast<double>(v)));
    EXPECT_LE(units(got, exact), allowed_units(0.0, 1.5)) << v;
  }
}

// With u = 0 and a limit above: g / (1 + exp(-alpha g)), whose exponent is rounded once more.
TEST_P(Elementwise, ClampedSwigluIsClose) {
  for (float v = -50.0f; v < 60.0f; v += 0.0371f) {
    const float zero = 0.0f;
    float got = 0.0f;
    table().clamped_swiglu(&v, &zero, 1, 1.702f, 100.0f, &got);
    const double argument = static_cast<double>(v) * static_cast<double>(1.702f);
    const double exact = static_cast<double>(v) / (1.0 + std::exp(-argument));
    EXPECT_LE(units(got, exact), allowed_units(argument, 2.5)) << v;
  }
}

TEST_P(Elementwise, ClampedSwigluAtTheEnds) {
  const Floats gate = {kTestInfinity, 1e30f, -1e30f, 0.0f, kTestNan, 7.0f, 7.0f, 7.0f};
  const Floats up = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, kTestInfinity, -1e30f, kTestNan};
  Floats out(8);
  table().clamped_swiglu(gate.data(), up.data(), 8, 1.0f, 7.0f, out.data());
  Floats most(1);
  table().clamped_swiglu(gate.data() + 5, up.data(), 1, 1.0f, 7.0f, most.data());
  EXPECT_EQ(out[0], most[0]);
  EXPECT_EQ(out[1], most[0]);
  EXPECT_EQ(out[2], 0.0f);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_TRUE(std::isnan(out[4]));
  EXPECT_EQ(out[5], 8.0f * most[0]);
  EXPECT_EQ(out[6], -6.0f * most[0]);
  EXPECT_TRUE(std::isnan(out[7]));
}

TEST_P(Elementwise, GeluTanhIsClose) {
  for (float v = -9.0f; v < 30.0f; v += 0.0037f) {
    const float one = 1.0f;
    float got = 0.0f;
    table().gelu_tanh_mul(&v, &one, 1, &got);
    const double x = v;
    const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    const double exact = x / (1.0 + std::exp(-2.0 * u));
    EXPECT_LE(units(got, exact), allowed_units(2.0 * u, 3.5)) << v;
  }
}

TEST_P(Elementwise, ActivationsAtTheEnds) {
  const Floats gate = {kTestInfinity, 1e30f, -1e30f, 0.0f, kTestNan};
  const Floats up(5, 1.0f);
  for (const auto kernel : {&KernelTable::silu_mul, &KernelTable::gelu_tanh_mul}) {
    Floats out(5);
    (table().*kernel)(gate.data(), up.data(), 5, out.data());
    EXPECT_EQ(out[0], kTestInfinity);
    EXPECT_EQ(out[1], 1e30f);
    EXPECT_EQ(out[2], 0.0f);
    EXPECT_EQ(out[3], 0.0f);
    EXPECT_TRUE(std::isnan(out[4]));
  }
}

TEST_P(Elementwise, RopeRotatesPairsOfHalves) {
  TestNumbers numbers(5);
  for_lengths([&](size_t half, size_t shift) {
    const Floats x = sample(numbers, 2 * half + 1, shift, 0);
    const Floats cos = sample(numbers, half, shift, 0);
    const Floats sin = sample(numbers, half, shift, 0);
    Floats got = x;
    table().rope(got.data() + shift, int64_t(half), cos.data() + shift, sin.data() + shift);
    Floats want = x;
    for (size_t i = 0; i < half; ++i) {
      const float a = x[shift + i];
      const float b = x[shift + half + i];
      const float c = cos[shift + i];
      const float s = sin[shift + i];
      want[shift + i] = std::fma(-b, s, a * c);
      want[shift + half + i] = std::fma(a, s, b * c);
    }
    EXPECT_TRUE(all_same_bits(got, want));
  });
}

TEST_P(Elementwise, RopeAnglesAreRoundedLikeATableInFloat32) {
  Floats inv_freq(32);
  for (size_t i = 0; i < 32; ++i) {
    inv_freq[i] = static_cast<float>(pow_of(10000.0, -static_cast<double>(i) / 32.0));
  }
  for (const int64_t position : {0, 1, 17, 8191, 131071}) {
    Floats cos(32);
    Floats sin(32);
    table().rope_angles(position, inv_freq.data(), 32, 1.25f, cos.data(), sin.data());
    for (size_t i = 0; i < 32; ++i) {
      const double angle = static_cast<float>(position) * inv_freq[i];
      EXPECT_LE(units(cos[i], 1.25 * std::cos(angle)), 1.5) << position;
      EXPECT_LE(units(sin[i], 1.25 * std::sin(angle)), 1.5) << position;
    }
  }
}

}  // namespace
}  // namespace rlgen::kernels
