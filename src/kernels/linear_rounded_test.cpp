#include "kernels/kernel_test.h"
#include "kernels/ops.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

struct RoundedCase {
  Isa isa;
  Profile profile;
};

std::vector<RoundedCase> rounded_cases() {
  std::vector<RoundedCase> cases;
  for (const Isa isa : available_isas()) {
    cases.push_back({isa, Profile::kBFloat16});
    cases.push_back({isa, Profile::kBFloat16Amx});
  }
  return cases;
}

class LinearRounded : public testing::TestWithParam<RoundedCase> {};
INSTANTIATE_TEST_SUITE_P(Isas, LinearRounded, testing::ValuesIn(rounded_cases()),
                         [](const testing::TestParamInfo<RoundedCase>& info) {
                           return std::string(isa_name(info.param.isa)) + "_" +
                                  std::string(profile_name(info.param.profile));
                         });

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

// docs/numbers.md in plain loops.
std::vector<float> plain_product(Profile profile, const RoundedProblem& p) {
  std::vector<float> y;
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      const auto x = [&](int64_t i) { return i < p.k ? rounded(p.x[size_t(r * p.k + i)]) : 0.0f; };
      const auto w = [&](int64_t i) { return i < p.k ? p.weights[size_t(c * p.k + i)] : 0.0f; };
      const float sum = rounded_sum(profile, 0, p.k, x, w);
      y.push_back(flushed(sum + flushed(p.bias[size_t(c)])));
    }
  }
  return y;
}

std::vector<float> product(const RoundedCase& on, const RoundedProblem& p, int threads) {
  ThreadPool pool(threads);
  std::vector<float> y(size_t(p.m * p.n), 7.0f);
  linear({kernel_table(on.isa), &pool, on.profile},
         {.x = p.x.data(),
          .ldx = p.k,
          .w = {p.packed.data(), DType::kBFloat16, p.n, p.k},
          .bias = p.bias.data(),
          .y = y.data(),
          .ldy = p.n,
          .m = p.m});
  return y;
}

constexpr Kind kKinds[] = {Kind::kModerate, Kind::kTiny, Kind::kHostile, Kind::kAny};

TEST_P(LinearRounded, EqualsThePlainLoop) {
  for (const Kind kind : kKinds) {
    for (const int64_t m : {1, 2, 3, 5, 6, 7, 12, 13, 16, 17, 30, 32, 35, 64}) {
      for (const int64_t k : {1, 2, 3, 16, 31, 32, 33, 48, 64, 257}) {
        const RoundedProblem p = make_rounded_problem(kind, m, 1 + (m * 5 + k * 3) % 70, k);
        EXPECT_TRUE(all_same_bits(product(GetParam(), p, 1), plain_product(GetParam().profile, p)))
            << "kind " << int(kind) << " m " << m << " n " << p.n << " k " << k;
      }
    }
  }
}

TEST_P(LinearRounded, DeepAndWideOnTwoThreads) {
  for (const Kind kind : {Kind::kModerate, Kind::kTiny}) {
    for (const int64_t m : {1, 9, 40}) {
      const RoundedProblem p = make_rounded_problem(kind, m, 300, 1100);
      EXPECT_TRUE(all_same_bits(product(GetParam(), p, 2), plain_product(GetParam().profile, p)))
          << m;
    }
  }
}

// Every output is two products that meet in one sum: the first is 2^-126, the second x * w.
RoundedProblem at_the_border(float x, float w, int64_t m, int64_t n) {
  RoundedProblem p{.m = m, .n = n, .k = 4, .x = {}, .weights = {}, .bias = {}, .packed = {}};
  for (int64_t row = 0; row < m; ++row) p.x.insert(p.x.end(), {0x1p-60f, 0.0f, x, 0.0f});
  p.packed.resize(packed_bytes(DType::kBFloat16, n, 4));
  const uint16_t halves[] = {bf16_from_float(0x1p-66f), 0, bf16_from_float(w), 0};
  for (int64_t row = 0; row < n; ++row) {
    pack_rows(p.packed.data(), DType::kBFloat16, n, 4, row, 1,
              reinterpret_cast<const std::byte*>(halves));
  }
  p.bias.assign(size_t(n), 0.0f);
  return p;
}

// 2^-126 - 2^-152 is 2^-126 once it is rounded, and stays; 2^-126 - 1.5 * 2^-150 is below it, and
// is flushed. NEON's flush mode judges before rounding and would drop both.
TEST_P(LinearRounded, ResultsNear2ToTheMinus126AreJudgedAfterRounding) {
  for (const int64_t m : {1, 5, 12, 30}) {
    for (const int64_t n : {1, 16, 37, 70}) {
      const auto count = size_t(m * n);
      EXPECT_TRUE(all_same_bits(product(GetParam(), at_the_border(0x1p-76f, -0x1p-76f, m, n), 1),
                                std::vector<float>(count, kLeastNormalFloat)))
          << "m " << m << " n " << n;
      EXPECT_TRUE(all_same_bits(product(GetParam(), at_the_border(0x1p-75f, -0x1.8p-75f, m, n), 1),
                                std::vector<float>(count, 0.0f)))
          << "m " << m << " n " << n;
    }
  }
}

// The tiny operands do reach the border; otherwise the tests above would show little.
TEST(LinearRoundedStep, TinyProductsAreFlushedAndRoundedUp) {
  EXPECT_EQ(profile_step(0x1p-76f, -0x1p-76f, 0x1p-126f), kLeastNormalFloat);
  EXPECT_EQ(profile_step(0x1p-75f, -0x1.8p-75f, 0x1p-126f), 0.0f);
  const std::vector<float> y =
      plain_product(Profile::kBFloat16, make_rounded_problem(Kind::kTiny, 30, 60, 2));
  int zeros = 0;
  int small = 0;
  for (const float v : y) {
    zeros += v == 0.0f;
    small += v != 0.0f && std::fabs(v) < 0x1p-120f;
  }
  EXPECT_GT(zeros, 20);
  EXPECT_GT(small, 200);
}

// The order of sums is visible: 2^-26 is lost where it is added to 1 alone, and the eighth part of
// the next number's distance where several meet first.
TEST_P(LinearRounded, TheOrderOfSumsIsThatOfTheProfile) {
  RoundedProblem p = make_rounded_problem(Kind::kModerate, 1, 1, 64);
  p.bias = {0.0f};
  const std::vector<uint16_t> ones(64, bf16_from_float(1.0f));
  pack_rows(p.packed.data(), DType::kBFloat16, 1, 64, 0, 1,
            reinterpret_cast<const std::byte*>(ones.data()));
  const auto steps_with_one_at = [&](int64_t place) {
    p.x.assign(64, 0x1p-26f);
    p.x[size_t(place)] = 1.0f;
    return (product(GetParam(), p, 1)[0] - 1.0f) * 0x1p23f;
  };
  if (GetParam().profile == Profile::kBFloat16) {
    EXPECT_EQ(steps_with_one_at(1), 0.0f);   // the first of all
    EXPECT_EQ(steps_with_one_at(20), 3.0f);  // 21 before it
    EXPECT_EQ(steps_with_one_at(21), 2.0f);  // 20
  } else {
    EXPECT_EQ(steps_with_one_at(0), 6.0f);  // 16 odd ones of its block, 32 of the next one
    EXPECT_EQ(steps_with_one_at(1), 6.0f);
    EXPECT_EQ(steps_with_one_at(20), 7.0f);  // 10 even ones before it too
    EXPECT_EQ(steps_with_one_at(30), 8.0f);  // 15
    EXPECT_EQ(steps_with_one_at(32), 6.0f);  // 32 of the block before
  }
}

// One output for each row: a sum that was flushed to -0, then two last products in a block that is
// not whole.
RoundedProblem ends_in(float even, float odd, int64_t m) {
  RoundedProblem p{.m = m, .n = 1, .k = 66, .x = {}, .weights = {}, .bias = {-0.0f}, .packed = {}};
  std::vector<float> row(66, 0.0f);
  row[0] = 0x1p-63f;
  row[32] = -0x1.8p-63f;
  row[64] = even;
  row[65] = odd;
  for (int64_t r = 0; r < m; ++r) p.x.insert(p.x.end(), row.begin(), row.end());
  p.weights.assign(66, 0x1p-63f);
  const std::vector<uint16_t> halves(66, bf16_from_float(0x1p-63f));
  p.packed.resize(packed_bytes(DType::kBFloat16, 1, 66));
  pack_rows(p.packed.data(), DType::kBFloat16, 1, 66, 0, 1,
            reinterpret_cast<const std::byte*>(halves.data()));
  return p;
}

// In bfloat16_amx chains of -0 are +0 after the zeros that fill the block; two that are not zero
// and whose sum is flushed to -0 stay so.
TEST_P(LinearRounded, TheSignOfAZeroIsThatOfTheDefinition) {
  for (const int64_t m : {1, 3, 16, 33}) {
    const RoundedProblem zeros = ends_in(-0x1p-100f, -0x1p-100f, m);
    const RoundedProblem tiny = ends_in(0x1p-63f, -0x1.8p-63f, m);
    for (const RoundedProblem* p : {&zeros, &tiny}) {
      const std::vector<float> expected = plain_product(GetParam().profile, *p);
      EXPECT_TRUE(all_same_bits(product(GetParam(), *p, 1), expected)) << m;
      if (GetParam().profile == Profile::kBFloat16) continue;
      EXPECT_EQ(expected[0], 0.0f);
      EXPECT_EQ(std::signbit(expected[0]), p == &tiny);
    }
  }
}

TEST_P(LinearRounded, TheCallersFloatModeComesBack) {
  const uint64_t before = float_control_word();
  product(GetParam(), make_rounded_problem(Kind::kModerate, 3, 40, 16), 1);
  EXPECT_EQ(float_control_word(), before);
}

}  // namespace
}  // namespace rlgen::kernels
