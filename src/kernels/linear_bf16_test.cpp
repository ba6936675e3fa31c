#include "kernels/kernel_test.h"
#include "kernels/ops.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

class LinearBf16 : public OnEachIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, LinearBf16, testing::ValuesIn(available_isas()), name_of_isa_case);

float rounded(float x) { return float_from_bf16(bf16_from_float(x)); }

// How operands are made: of moderate size, near the border of the subnormal numbers, or any bits.
enum class Kind { kModerate, kTiny, kHostile, kAny };

struct RoundedProblem {
  int64_t m;
  int64_t n;
  int64_t k;
  std::vector<float> x;
  std::vector<float> weights;  // [n, k], bfloat16 values
  std::vector<float> bias;
  std::vector<std::byte> packed;
};

float value(TestNumbers& numbers, Kind kind, float exponent) {
  switch (kind) {
    case Kind::kModerate:
      return numbers.between(-1.0f, 1.0f);
    case Kind::kTiny:
      return std::ldexp(numbers.between(-2.0f, 2.0f), int(exponent + numbers.between(-9.0f, 9.0f)));
    case Kind::kHostile:
      return numbers.hostile_float();
    case Kind::kAny:
      return numbers.any_float();
  }
  return 0.0f;
}

RoundedProblem make_rounded_problem(Kind kind, int64_t m, int64_t n, int64_t k) {
  TestNumbers numbers(uint64_t(m * 1000003 + n * 1009 + k * 17 + int(kind)));
  RoundedProblem p{.m = m, .n = n, .k = k, .x = {}, .weights = {}, .bias = {}, .packed = {}};
  for (int64_t i = 0; i < m * k; ++i) p.x.push_back(value(numbers, kind, -60.0f));
  p.packed.resize(packed_bytes(DType::kBFloat16, n, k));
  for (int64_t row = 0; row < n; ++row) {
    std::vector<uint16_t> halves;
    for (int64_t i = 0; i < k; ++i) {
      halves.push_back(bf16_from_float(value(numbers, kind, -67.0f)));
      p.weights.push_back(float_from_bf16(halves.back()));
    }
    pack_rows(p.packed.data(), DType::kBFloat16, n, k, row, 1,
              reinterpret_cast<const std::byte*>(halves.data()));
    p.bias.push_back(value(numbers, kind, -128.0f));
  }
  return p;
}

std::vector<float> plain_pairs(const RoundedProblem& p) {
  std::vector<float> y;
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      const auto x = [&](int64_t i) { return i < p.k ? rounded(p.x[size_t(r * p.k + i)]) : 0.0f; };
      const auto w = [&](int64_t i) { return i < p.k ? p.weights[size_t(c * p.k + i)] : 0.0f; };
      float sum = 0.0f;
      for (int64_t i = 0; i < p.k; i += 2) {
        sum = profile_step(x(i + 1), w(i + 1), sum);
        sum = profile_step(x(i), w(i), sum);
      }
      y.push_back(flushed(sum + flushed(p.bias[size_t(c)])));
    }
  }
  return y;
}

std::vector<float> product(const KernelTable& table, const RoundedProblem& p, int threads) {
  ThreadPool pool(threads);
  std::vector<float> y(size_t(p.m * p.n), 7.0f);
  linear({&table, &pool, Profile::kBFloat16}, {.x = p.x.data(),
                                               .ldx = p.k,
                                               .w = {p.packed.data(), DType::kBFloat16, p.n, p.k},
                                               .bias = p.bias.data(),
                                               .y = y.data(),
                                               .ldy = p.n,
                                               .m = p.m});
  return y;
}

constexpr Kind kKinds[] = {Kind::kModerate, Kind::kTiny, Kind::kHostile, Kind::kAny};

TEST_P(LinearBf16, EqualsThePlainLoop) {
  for (const Kind kind : kKinds) {
    for (const int64_t m : {1, 2, 3, 5, 6, 7, 12, 13, 30}) {
      for (const int64_t k : {1, 2, 3, 16, 33, 48, 257}) {
        const RoundedProblem p = make_rounded_problem(kind, m, 1 + (m * 5 + k * 3) % 70, k);
        EXPECT_TRUE(all_same_bits(product(table(), p, 1), plain_pairs(p)))
            << "kind " << int(kind) << " m " << m << " n " << p.n << " k " << k;
      }
    }
  }
}

TEST_P(LinearBf16, DeepAndWideOnTwoThreads) {
  for (const Kind kind : {Kind::kModerate, Kind::kTiny}) {
    for (const int64_t m : {1, 9, 40}) {
      const RoundedProblem p = make_rounded_problem(kind, m, 300, 1100);
      EXPECT_TRUE(all_same_bits(product(table(), p, 2), plain_pairs(p))) << m;
    }
  }
}

// Every output is one pair of products: the odd elements', which comes first, is 2^-126, and that
// of the even elements is x * w.
RoundedProblem at_the_border(float x, float w, int64_t m, int64_t n) {
  RoundedProblem p{.m = m, .n = n, .k = 2, .x = {}, .weights = {}, .bias = {}, .packed = {}};
  for (int64_t row = 0; row < m; ++row) p.x.insert(p.x.end(), {x, 0x1p-60f});
  p.packed.resize(packed_bytes(DType::kBFloat16, n, 2));
  const uint16_t halves[] = {bf16_from_float(w), bf16_from_float(0x1p-66f)};
  for (int64_t row = 0; row < n; ++row) {
    pack_rows(p.packed.data(), DType::kBFloat16, n, 2, row, 1,
              reinterpret_cast<const std::byte*>(halves));
  }
  p.bias.assign(size_t(n), 0.0f);
  return p;
}

// 2^-126 - 2^-152 is 2^-126 once it is rounded, and stays; 2^-126 - 1.5 * 2^-150 is below it, and
// is flushed. NEON's flush mode judges before rounding and would drop both.
TEST_P(LinearBf16, ResultsNear2ToTheMinus126AreJudgedAfterRounding) {
  for (const int64_t m : {1, 5, 12, 30}) {
    for (const int64_t n : {1, 16, 37, 70}) {
      const auto count = size_t(m * n);
      EXPECT_TRUE(all_same_bits(product(table(), at_the_border(0x1p-76f, -0x1p-76f, m, n), 1),
                                std::vector<float>(count, kLeastNormalFloat)))
          << "m " << m << " n " << n;
      EXPECT_TRUE(all_same_bits(product(table(), at_the_border(0x1p-75f, -0x1.8p-75f, m, n), 1),
                                std::vector<float>(count, 0.0f)))
          << "m " << m << " n " << n;
    }
  }
}

// The tiny operands do reach the border; otherwise the tests above would show little.
TEST(LinearBf16Step, TinyProductsAreFlushedAndRoundedUp) {
  EXPECT_EQ(profile_step(0x1p-76f, -0x1p-76f, 0x1p-126f), kLeastNormalFloat);
  EXPECT_EQ(profile_step(0x1p-75f, -0x1.8p-75f, 0x1p-126f), 0.0f);
  const std::vector<float> y = plain_pairs(make_rounded_problem(Kind::kTiny, 30, 60, 2));
  int zeros = 0;
  int small = 0;
  for (const float v : y) {
    zeros += v == 0.0f;
    small += v != 0.0f && std::fabs(v) < 0x1p-120f;
  }
  EXPECT_GT(zeros, 20);
  EXPECT_GT(small, 200);
}

// The order of the two is visible, and it is odd before even.
TEST_P(LinearBf16, TheOddElementComesFirst) {
  RoundedProblem p{.m = 1,
                   .n = 1,
                   .k = 2,
                   .x = {0x1p-13f, 1.0f},
                   .weights = {0x1p-13f, 1.0f},
                   .bias = {0.0f},
                   .packed = std::vector<std::byte>(packed_bytes(DType::kBFloat16, 1, 2))};
  const uint16_t halves[] = {bf16_from_float(0x1p-13f), bf16_from_float(1.0f)};
  pack_rows(p.packed.data(), DType::kBFloat16, 1, 2, 0, 1,
            reinterpret_cast<const std::byte*>(halves));
  EXPECT_EQ(product(table(), p, 1)[0], std::fma(0x1p-13f, 0x1p-13f, 1.0f));
}

TEST_P(LinearBf16, TheCallersFloatModeComesBack) {
  const uint64_t before = float_control_word();
  product(table(), make_rounded_problem(Kind::kModerate, 3, 40, 16), 1);
  EXPECT_EQ(float_control_word(), before);
}

}  // namespace
}  // namespace rlgen::kernels
