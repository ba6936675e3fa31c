#include <cmath>

#include "kernels/kernel_test.h"
#include "kernels/simd/probe/probe.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {

namespace scalar {
const VectorProbe* probe();
}
namespace avx2 {
const VectorProbe* probe();
}
namespace avx512 {
const VectorProbe* probe();
}
namespace neon {
const VectorProbe* probe();
}

namespace {

const VectorProbe* probe_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return avx2::probe();
    case Isa::kAvx512:
      return avx512::probe();
#endif
#if defined(__aarch64__)
    case Isa::kNeon:
      return neon::probe();
#endif
    default:
      return scalar::probe();
  }
}

using Floats = std::vector<float>;
using Halves = std::vector<uint16_t>;

class Vector : public testing::TestWithParam<Isa> {
 protected:
  const VectorProbe& probe() const { return *probe_of(GetParam()); }

  // Ordinary numbers, hostile ones and any bits, in turn.
  Floats sample() {
    Floats all(16);
    const int kind = round_++ % 3;
    for (float& x : all) {
      x = kind == 0   ? numbers_.between(-50.0f, 50.0f)
          : kind == 1 ? numbers_.hostile_float()
                      : numbers_.any_float();
    }
    return all;
  }
  Halves half_sample(size_t count) {
    Halves all(count);
    for (uint16_t& x : all) x = static_cast<uint16_t>(numbers_.bits());
    return all;
  }

  TestNumbers numbers_{11};
  int round_ = 0;
};

// AVX-512 with BF16 or AMX has the vectors of AVX-512.
std::vector<Isa> isas_with_vectors() {
  std::vector<Isa> isas = available_isas();
  std::erase_if(isas, [](Isa isa) { return isa == Isa::kAvx512Bf16 || isa == Isa::kAmx; });
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isas, Vector, testing::ValuesIn(isas_with_vectors()), name_of_isa_case);

constexpr int kRounds = 600;

template <typename F>
Floats each(F f) {
  Floats all(16);
  for (size_t i = 0; i < 16; ++i) all[i] = f(i);
  return all;
}

TEST_P(Vector, IsTheOneAskedFor) { EXPECT_EQ(probe().isa, isa_name(GetParam())); }

TEST_P(Vector, ArithmeticEqualsPlainC) {
  for (int round = 0; round < kRounds; ++round) {
    const Floats a = sample();
    const Floats b = round % 2 == 0 ? sample() : Floats(a.rbegin(), a.rend());
    const Floats c = sample();
    Floats out(16 * kProbeBinary);
    probe().binary(a.data(), b.data(), out.data());
    const auto part = [&](int i) { return Floats(&out[16 * i], &out[16 * i] + 16); };
    EXPECT_TRUE(all_same_bits(part(0), each([&](size_t i) { return a[i] + b[i]; })));
    EXPECT_TRUE(all_same_bits(part(1), each([&](size_t i) { return a[i] - b[i]; })));
    EXPECT_TRUE(all_same_bits(part(2), each([&](size_t i) { return a[i] * b[i]; })));
    EXPECT_TRUE(all_same_bits(part(3), each([&](size_t i) { return a[i] / b[i]; })));
    EXPECT_TRUE(all_same_bits(part(4), each([&](size_t i) { return a[i] > b[i] ? a[i] : b[i]; })));
    EXPECT_TRUE(all_same_bits(part(5), each([&](size_t i) { return a[i] < b[i] ? a[i] : b[i]; })));
    Floats fused(16);
    probe().fma(a.data(), b.data(), c.data(), fused.data());
    EXPECT_TRUE(all_same_bits(fused, each([&](size_t i) { return std::fma(a[i], b[i], c[i]); })));
  }
}

TEST_P(Vector, UnaryEqualsPlainC) {
  for (int round = 0; round < kRounds; ++round) {
    const Floats a = sample();
    Floats out(16 * kProbeUnary);
    probe().unary(a.data(), out.data());
    EXPECT_TRUE(all_same_bits(Floats(&out[0], &out[16]), each([&](size_t i) { return -a[i]; })));
    EXPECT_TRUE(
        all_same_bits(Floats(&out[16], &out[32]), each([&](size_t i) { return std::sqrt(a[i]); })));
    EXPECT_TRUE(all_same_bits(Floats(&out[48], &out[48] + 16),
                              each([&](size_t i) { return a[i] + a[0]; })));
  }
}

TEST_P(Vector, CompareAndSelect) {
  for (int round = 0; round < kRounds; ++round) {
    const Floats a = sample();
    const Floats b = round % 2 == 0 ? sample() : a;
    const int n = round % 17;
    uint32_t got[5];
    probe().compare(a.data(), b.data(), n, got);
    uint32_t want[3] = {};
    for (size_t i = 0; i < 16; ++i) {
      want[0] |= uint32_t(a[i] < b[i]) << i;
      want[1] |= uint32_t(a[i] <= b[i]) << i;
      want[2] |= uint32_t(a[i] == b[i]) << i;
    }
    const uint32_t first = (1u << n) - 1;
    EXPECT_EQ(got[0], want[0]);
    EXPECT_EQ(got[1], want[1]);
    EXPECT_EQ(got[2], want[2]);
    EXPECT_EQ(got[3], first);
    EXPECT_EQ(got[4], want[0] & first);
    Floats selected(16);
    probe().select_less(a.data(), b.data(), selected.data());
    EXPECT_TRUE(all_same_bits(selected, each([&](size_t i) { return a[i] < b[i] ? a[i] : b[i]; })));
  }
}

TEST_P(Vector, ScalesByPowersOfTwo) {
  for (int n = -126; n <= 127; ++n) {
    const Floats a = numbers_.floats(16, 1.0f, 2.0f);
    const Floats t(16, static_cast<float>(n) + 0x1.8p23f);
    Floats out(16);
    probe().scale_pow2(a.data(), t.data(), out.data());
    EXPECT_TRUE(all_same_bits(out, each([&](size_t i) { return std::ldexp(a[i], n); })));
  }
  const Floats one(16, 1.0f);
  const Floats t(16, 128.0f + 0x1.8p23f);
  Floats out(16);
  probe().scale_pow2(one.data(), t.data(), out.data());
  EXPECT_EQ(out, Floats(16, kTestInfinity));
}

TEST_P(Vector, PartialLoadsAndStoresTouchNothingElse) {
  for (int n = 0; n <= 16; ++n) {
    const auto count = static_cast<size_t>(n);
    // The arrays end where the lanes end, so that the address sanitizer sees a step too far.
    const Floats source = numbers_.floats(count);
    Floats loaded(16, 7.0f);
    probe().load_n(source.data(), n, loaded.data());
    EXPECT_EQ(loaded, each([&](size_t i) { return i < count ? source[i] : 0.0f; }));

    const Floats value = numbers_.floats(16);
    Floats stored(20, 7.0f);
    probe().store_n(value.data(), stored.data() + 1, n);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(stored[i], i >= 1 && i < 1 + count ? value[i - 1] : 7.0f) << n << " " << i;
    }
  }
}

TEST_P(Vector, SixteenBitTypesLoad) {
  for (uint32_t first = 0; first < 0x10000; first += 16) {
    Halves p(16);
    for (size_t i = 0; i < 16; ++i) p[i] = static_cast<uint16_t>(first + i);
    Floats bf16(16);
    Floats f16(16);
    probe().load_16bit(p.data(), bf16.data(), f16.data());
    EXPECT_TRUE(all_same_bits(bf16, each([&](size_t i) { return float_from_bf16(p[i]); })));
    EXPECT_TRUE(all_same_bits(f16, each([&](size_t i) { return float_from_f16(p[i]); })));
  }
}

TEST_P(Vector, SixteenBitTypesStore) {
  const auto same_half = [](uint16_t a, uint16_t b, uint16_t infinity) {
    const bool both_nan = (a & 0x7fff) > infinity && (b & 0x7fff) > infinity;
    return both_nan || a == b;
  };
  for (int round = 0; round < 20 * kRounds; ++round) {
    Floats a = sample();
    // Half of the rounds lie between two neighbours of the 16-bit types, at a tie or beside it.
    if (round % 2 == 0) {
      for (float& x : a) {
        const uint32_t low = static_cast<uint32_t>(numbers_.bits() % 3) - 1;
        const uint32_t bits = std::bit_cast<uint32_t>(x);
        x = std::bit_cast<float>(round % 4 == 0 ? ((bits & 0xffff0000u) | 0x8000u) + low
                                                : ((bits & 0xffffe000u) | 0x1000u) + low);
        if (round % 4 != 0 && std::isnormal(x)) {
          x = std::ldexp(x, -std::ilogb(x) - static_cast<int>(numbers_.bits() % 28));
        }
      }
    }
    Halves bf16(16);
    Halves f16(16);
    probe().store_16bit(a.data(), bf16.data(), f16.data());
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_TRUE(same_half(bf16[i], bf16_from_float(a[i]), 0x7f80)) << a[i];
      EXPECT_TRUE(same_half(f16[i], f16_from_float(a[i]), 0x7c00)) << a[i];
    }
  }
}

TEST_P(Vector, SixteenBitTypesInParts) {
  for (int n = 0; n <= 16; ++n) {
    const auto count = static_cast<size_t>(n);
    const Halves p = half_sample(count);
    Floats bf16(16);
    Floats f16(16);
    probe().load_16bit_n(p.data(), n, bf16.data(), f16.data());
    EXPECT_TRUE(all_same_bits(
        bf16, each([&](size_t i) { return i < count ? float_from_bf16(p[i]) : 0.0f; })));
    EXPECT_TRUE(all_same_bits(
        f16, each([&](size_t i) { return i < count ? float_from_f16(p[i]) : 0.0f; })));

    const Floats value = numbers_.floats(16);
    Halves stored_bf16(17, 7);
    Halves stored_f16(17, 7);
    probe().store_16bit_n(value.data(), n, stored_bf16.data(), stored_f16.data());
    for (size_t i = 0; i < 17; ++i) {
      EXPECT_EQ(stored_bf16[i], i < count ? bf16_from_float(value[i]) : 7);
      EXPECT_EQ(stored_f16[i], i < count ? f16_from_float(value[i]) : 7);
    }
  }
}

TEST_P(Vector, PairsSplitIntoEvenAndOdd) {
  for (int round = 0; round < kRounds; ++round) {
    const Halves p = half_sample(32);
    Floats even(16);
    Floats odd(16);
    probe().load_bf16_pair(p.data(), even.data(), odd.data());
    EXPECT_TRUE(all_same_bits(even, each([&](size_t i) { return float_from_bf16(p[2 * i]); })));
    EXPECT_TRUE(all_same_bits(odd, each([&](size_t i) { return float_from_bf16(p[2 * i + 1]); })));
    probe().load_f16_pair(p.data(), even.data(), odd.data());
    EXPECT_TRUE(all_same_bits(even, each([&](size_t i) { return float_from_f16(p[2 * i]); })));
    EXPECT_TRUE(all_same_bits(odd, each([&](size_t i) { return float_from_f16(p[2 * i + 1]); })));
  }
}

template <typename T, typename F>
T tree(std::vector<T> v, F f) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) v[i] = f(v[i], v[i + half]);
  }
  return v[0];
}

TEST_P(Vector, ReductionsFollowTheTree) {
  const auto plus = [](auto a, auto b) { return a + b; };
  for (int round = 0; round < kRounds; ++round) {
    const Floats a = sample();
    const Floats b = sample();
    EXPECT_TRUE(same_bits(probe().reduce_sum(a.data()), tree(a, plus)));
    EXPECT_TRUE(same_bits(probe().reduce_max(a.data()),
                          tree(a, [](float x, float y) { return x > y ? x : y; })));
    std::vector<double> wide(16);
    for (size_t i = 0; i < 16; ++i) wide[i] = double(a[i]) + double(b[i]);
    EXPECT_TRUE(same_bits(probe().reduce_sum_f64(a.data(), b.data()), tree(wide, plus)));
  }
}

float exp_on(const VectorProbe& probe, float x) {
  const Floats in(16, x);
  Floats out(16 * kProbeUnary);
  probe.unary(in.data(), out.data());
  return out[32];
}

TEST_P(Vector, ExpIsWithinOneUnit) {
  double worst = 0.0;
  for (int i = 0; i < 4000; ++i) {
    const Floats in = numbers_.floats(16, i % 2 == 0 ? -87.0f : -1.0f, i % 2 == 0 ? 88.7f : 1.0f);
    Floats out(16 * kProbeUnary);
    probe().unary(in.data(), out.data());
    for (size_t lane = 0; lane < 16; ++lane) {
      const double exact = std::exp(static_cast<double>(in[lane]));
      const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
      worst = std::max(worst, std::fabs(static_cast<double>(out[32 + lane]) - exact) / unit);
    }
  }
  EXPECT_LT(worst, 1.0);
  RecordProperty("worst_units", std::to_string(worst));
}

TEST_P(Vector, ExpAtTheEnds) {
  EXPECT_EQ(exp_on(probe(), 0.0f), 1.0f);
  EXPECT_EQ(exp_on(probe(), -0.0f), 1.0f);
  EXPECT_GT(exp_on(probe(), -87.0f), 0x1p-126f);
  EXPECT_EQ(exp_on(probe(), std::nextafter(-87.0f, -100.0f)), 0.0f);
  EXPECT_EQ(exp_on(probe(), -1e30f), 0.0f);
  EXPECT_EQ(exp_on(probe(), -kTestInfinity), 0.0f);
  EXPECT_LT(exp_on(probe(), 0x1.62e42ep+6f), kTestInfinity);
  EXPECT_EQ(exp_on(probe(), 0x1.62e43p+6f), kTestInfinity);
  EXPECT_EQ(exp_on(probe(), kTestInfinity), kTestInfinity);
  EXPECT_TRUE(std::isnan(exp_on(probe(), kTestNan)));
  EXPECT_TRUE(std::isnan(exp_on(probe(), std::bit_cast<float>(0xff8001ffu))));
}

// What it is not made for, numbers above 0, is left out.
TEST_P(Vector, ExpOfADifferenceIsExp) {
  const auto expect_same = [&](Floats in) {
    for (float& x : in) x = -std::fabs(x);
    Floats out(16 * kProbeUnary);
    probe().unary(in.data(), out.data());
    EXPECT_TRUE(all_same_bits(Floats(&out[32], &out[48]), Floats(&out[64], &out[64] + 16)));
  };
  for (int round = 0; round < 10 * kRounds; ++round) {
    expect_same(sample());
    expect_same(numbers_.floats(16, -90.0f, 0.0f));
  }
  expect_same({0.0f, 87.0f, std::nextafter(87.0f, 0.0f), std::nextafter(87.0f, 90.0f), 1e30f,
               kTestInfinity, kTestNan, 0x1p-149f, 0x1p-126f, 0x1p-30f, 0.34657f, 0.34658f, 86.9f,
               87.1f, 88.0f, 1.0f});
}

TEST_P(Vector, ExpEqualsTheScalarOne) {
  for (int round = 0; round < 20 * kRounds; ++round) {
    const Floats a = sample();
    Floats out(16 * kProbeUnary);
    Floats twin(16 * kProbeUnary);
    probe().unary(a.data(), out.data());
    scalar::probe()->unary(a.data(), twin.data());
    out.resize(64);
    twin.resize(64);
    EXPECT_TRUE(all_same_bits(out, twin));
  }
}

}  // namespace
}  // namespace rlgen::kernels
