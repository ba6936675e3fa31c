#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/ops.h"
#include "tensor/bfloat16.h"

// What the tests of kernels share.
namespace rlgen::kernels {

// A test with this fixture runs once for each instruction set that the machine has.
class OnEachIsa : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& table() const { return *kernel_table(GetParam()); }
};

inline std::string name_of_isa_case(const testing::TestParamInfo<Isa>& info) {
  return std::string(isa_name(info.param));
}

// Equal bits; any NaN equals any other, since processors choose its sign and payload differently.
template <typename T>
bool same_bits(T a, T b) {
  if (a != a || b != b) return a != a && b != b;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <typename T>
testing::AssertionResult all_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

inline constexpr DType kWeightTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32};

// The value as an element of `dtype` keeps it.
inline float stored(DType dtype, float x) {
  if (dtype == DType::kBFloat16) return float_from_bf16(bf16_from_float(x));
  if (dtype == DType::kFloat16) return float_from_f16(f16_from_float(x));
  return x;
}

// Flush mode and one multiply-add of the bfloat16 profile (docs/numbers.md), in a machine that
// keeps subnormals. The same sum scaled by 2^64 tells a result that was rounded up to the least
// normal number from one that is that number.
inline constexpr float kLeastNormalFloat = 0x1p-126f;

inline float flushed(float x) {
  return std::fabs(x) < kLeastNormalFloat ? std::copysign(0.0f, x) : x;
}

inline float profile_step(float x, float w, float sum) {
  x = flushed(x);
  w = flushed(w);
  const float result = std::fma(x, w, flushed(sum));
  if (!(std::fabs(result) <= kLeastNormalFloat) || result == 0.0f) return result;
  const float scaled = std::fma(x * 0x1p64f, w, flushed(sum) * 0x1p64f);
  return std::fabs(scaled) < 0x1p-62f ? std::copysign(0.0f, result) : result;
}

// The sum of x(i) * y(i) over i = begin .. end - 1, begin even, as a profile that rounds has it
// (docs/numbers.md); x and y give operands that are rounded already.
template <typename X, typename Y>
float rounded_sum(Profile profile, int64_t begin, int64_t end, X x, Y y) {
  const auto add = [&](int64_t i, float sum) {
    return i < end ? profile_step(x(i), y(i), sum) : profile_step(0.0f, 0.0f, sum);
  };
  float sum = 0.0f;
  if (profile == Profile::kBFloat16) {
    for (int64_t i = begin; i < end; i += 2) sum = add(i, add(i + 1, sum));
    return sum;
  }
  for (int64_t block = begin / 32 * 32; block < end; block += 32) {
    float even = 0.0f;
    float odd = 0.0f;
    for (int64_t i = block; i < block + 32; i += 2) {
      even = add(i, even);
      odd = add(i + 1, odd);
    }
    sum = flushed(sum + flushed(even + odd));
  }
  return sum;
}

inline constexpr float kTestInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kTestNan = std::numeric_limits<float>::quiet_NaN();

class TestNumbers {
 public:
  explicit TestNumbers(uint64_t seed) : random_(seed) {}

  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(random_() >> 40) * 0x1p-24f;
  }
  std::vector<float> floats(size_t count, float low = -1.0f, float high = 1.0f) {
    std::vector<float> all(count);
    for (float& x : all) x = between(low, high);
    return all;
  }
  // Any bit pattern: NaN, infinities and subnormals among them.
  float any_float() { return std::bit_cast<float>(static_cast<uint32_t>(random_())); }
  // One of those values that go wrong first.
  float hostile_float() {
    static constexpr float kValues[] = {0.0f,
                                        -0.0f,
                                        1.0f,
                                        -1.0f,
                                        0x1p-149f,
                                        -0x1p-149f,
                                        0x1.fffffcp-127f,
                                        0x1p-126f,
                                        -0x1p-126f,
                                        0x1.fffffep127f,
                                        -0x1.fffffep127f,
                                        0x1p24f,
                                        kTestInfinity,
                                        -kTestInfinity,
                                        kTestNan,
                                        0x1.000002p0f};
    return kValues[random_() % std::size(kValues)];
  }
  uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

}  // namespace rlgen::kernels
