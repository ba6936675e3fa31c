#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/kernel_test.h"
#include "kernels/philox.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Lengths around vectors and blocks of the grid.
std::vector<int64_t> lengths() {
  std::vector<int64_t> all;
  for (int64_t n = 1; n <= 35; ++n) all.push_back(n);
  for (int64_t n : {63, 64, 65, 127, 1023, 1024, 1025, 2048, 2100, 3077}) all.push_back(n);
  return all;
}

std::vector<float> random_row(uint64_t seed, int64_t n, double low, double high) {
  std::vector<float> row(n);
  for (int64_t i = 0; i < n; ++i) {
    row[i] = static_cast<float>(low + (high - low) * uniform(seed, 0, static_cast<uint64_t>(i)));
  }
  return row;
}

// The grid of docs/numbers.md in plain loops.
double block_sum(const float* p, int64_t n) {
  double lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] += static_cast<double>(p[i]);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

std::vector<double> block_sums(const std::vector<float>& p) {
  std::vector<double> blocks;
  const auto n = static_cast<int64_t>(p.size());
  for (int64_t i = 0; i < n; i += kSumBlock) {
    blocks.push_back(block_sum(p.data() + i, std::min(n - i, kSumBlock)));
  }
  return blocks;
}

double in_order(const std::vector<double>& blocks) {
  double sum = 0.0;
  for (double block : blocks) sum += block;
  return sum;
}

class RowKernels : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& table() const { return *kernel_table(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Isas, RowKernels, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST_P(RowKernels, SumsEqualThePlainLoops) {
  for (const int64_t n : lengths()) {
    for (const int shift : {0, 1, 7}) {
      const auto memory = random_row(n + shift, n + shift, -30.0, 30.0);
      const float* x = memory.data() + shift;
      std::vector<float> p(n);
      std::vector<float> p_scalar(n);
      std::vector<double> blocks((n + kSumBlock - 1) / kSumBlock);
      const RowSums sums = table().row_sums(x, n, p.data(), blocks.data());
      kernel_table(Isa::kScalar)->row_sums(x, n, p_scalar.data(), nullptr);

      const float* best = std::max_element(x, x + n);
      EXPECT_FALSE(sums.invalid);
      EXPECT_EQ(sums.max, *best);
      EXPECT_EQ(sums.argmax, best - x);
      ASSERT_EQ(p, p_scalar) << "n " << n;
      for (int64_t i = 0; i < n; ++i) {
        const double exact = std::exp(static_cast<double>(x[i] - sums.max));
        ASSERT_NEAR(p[i], exact, exact * 0x1p-22);
      }
      EXPECT_EQ(blocks, block_sums(p)) << "n " << n;
      EXPECT_EQ(sums.sum, in_order(blocks));
      EXPECT_EQ(table().row_sums(x, n, nullptr, nullptr).sum, sums.sum);
    }
  }
}

TEST_P(RowKernels, NothingBeyondTheRowIsTouched) {
  for (const int64_t n : {1, 15, 17, 1030}) {
    auto x = random_row(3, n, -5.0, 5.0);
    x.resize(n + 16, kNan);
    std::vector<float> p(n + 16, -7.0f);
    EXPECT_FALSE(table().row_sums(x.data(), n, p.data(), nullptr).invalid);
    table().row_keep(p.data(), n, {0.5f, 3}, nullptr);
    table().row_divide(p.data(), n, 0.0f, 3.0f);
    for (int64_t i = n; i < n + 16; ++i) EXPECT_EQ(p[i], -7.0f);
  }
}

TEST_P(RowKernels, TheLowestIndexWinsATie) {
  for (const int64_t n : {2, 40, 2000}) {
    std::vector<float> x(n, 1.5f);
    EXPECT_EQ(table().row_sums(x.data(), n, nullptr, nullptr).argmax, 0);
    x[0] = 1.0f;
    EXPECT_EQ(table().row_sums(x.data(), n, nullptr, nullptr).argmax, 1);
    std::fill(x.begin(), x.end(), -0.0f);
    x[n - 1] = 0.0f;
    EXPECT_EQ(table().row_sums(x.data(), n, nullptr, nullptr).argmax, 0);
  }
}

TEST_P(RowKernels, NanAndInfinityAreMetWhereverTheyStand) {
  for (const int64_t n : {1, 16, 33, 130, 1500}) {
    for (const float bad : {kNan, -kNan, kInfinity}) {
      for (int64_t at = 0; at<n; at += n> 200 ? 97 : 1) {
        auto x = random_row(5, n, -5.0, 5.0);
        x[at] = bad;
        EXPECT_TRUE(table().row_sums(x.data(), n, nullptr, nullptr).invalid) << n << " " << at;
      }
    }
  }
}

TEST_P(RowKernels, MaskedElementsHaveNoWeight) {
  std::vector<float> x = {1.0f, -kInfinity, 1.0f, -kInfinity};
  std::vector<float> p(4);
  double block = 0.0;
  RowSums sums = table().row_sums(x.data(), 4, p.data(), &block);
  EXPECT_EQ(p, (std::vector<float>{1.0f, 0.0f, 1.0f, 0.0f}));
  EXPECT_EQ(sums.sum, 2.0);
  EXPECT_EQ(block, 2.0);

  std::fill(x.begin(), x.end(), -kInfinity);
  sums = table().row_sums(x.data(), 4, p.data(), &block);
  EXPECT_FALSE(sums.invalid);
  EXPECT_EQ(sums.max, -kInfinity);
  EXPECT_EQ(sums.sum, 0.0);
  EXPECT_EQ(p, std::vector<float>(4, 0.0f));
}

TEST_P(RowKernels, DivisionIsTrue) {
  for (const int64_t n : lengths()) {
    const auto x = random_row(11, n, -40.0, 40.0);
    for (const float divisor : {0.3f, 0.7f, 1.7f, 1e-30f}) {
      auto y = x;
      table().row_divide(y.data(), n, 0.0f, divisor);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], x[i] / divisor);
      y = x;
      table().row_divide(y.data(), n, 1.25f, divisor);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], (x[i] - 1.25f) / divisor);
    }
  }
}

TEST_P(RowKernels, KeepZeroesWhatDoesNotSurvive) {
  for (const int64_t n : lengths()) {
    auto p = random_row(13, n, 0.0, 1.0);
    for (int64_t i = 0; i < n; i += 3) p[i] = 0.5f;
    for (const int64_t last_tie : {int64_t{0}, int64_t{7}, int64_t{16}, n / 2, n - 1}) {
      auto expected = p;
      for (int64_t i = 0; i < n; ++i) {
        if (!(p[i] > 0.5f || (p[i] == 0.5f && i <= last_tie))) expected[i] = 0.0f;
      }
      auto kept = p;
      std::vector<double> blocks((n + kSumBlock - 1) / kSumBlock);
      const Threshold keep{0.5f, static_cast<int32_t>(last_tie)};
      const double sum = table().row_keep(kept.data(), n, keep, blocks.data());
      ASSERT_EQ(kept, expected) << "n " << n << ", last tie " << last_tie;
      EXPECT_EQ(blocks, block_sums(expected));
      EXPECT_EQ(sum, in_order(blocks));
    }
  }
}

TEST_P(RowKernels, TheDefaultThresholdKeepsAll) {
  const auto p = random_row(17, 1500, 0.0, 1.0);
  auto kept = p;
  table().row_keep(kept.data(), 1500, {}, nullptr);
  EXPECT_EQ(kept, p);
}

TEST_P(RowKernels, LargeElementsAreTakenOutInOrder) {
  for (const int64_t n : lengths()) {
    const auto p = random_row(29, n, 0.0, 1.0);
    for (const float least : {0x1p-149f, 0.25f, p[n / 2], 0.9f, 2.0f}) {
      std::vector<float> expected;
      std::copy_if(p.begin(), p.end(), std::back_inserter(expected),
                   [&](float v) { return v >= least; });
      std::vector<float> out(static_cast<size_t>(n) + 1);
      const int64_t count = table().row_at_least(p.data(), n, least, out.data());
      out.resize(static_cast<size_t>(count));
      ASSERT_EQ(out, expected) << "n " << n << " least " << least;
    }
  }
}

TEST_P(RowKernels, HistogramsCountEveryElementInIndexOrder) {
  for (const int64_t n : lengths()) {
    auto p = random_row(19, n, -0.2, 1.0);
    for (float& v : p) v = v < 0.0f ? 0.0f : v * v * v;
    if (n > 4) p[2] = 1.0f, p[3] = 0x1p-149f, p[4] = 0x1p-126f;
    const auto middle = std::bit_cast<uint32_t>(p[n / 2]);
    for (const HistogramLevel level :
         {HistogramLevel{0, 30, 19}, HistogramLevel{0, 19, 9}, HistogramLevel{middle >> 19, 19, 9},
          HistogramLevel{middle >> 9, 9, 0}}) {
      const size_t bins = size_t{1} << (level.prefix_shift - level.shift);
      std::vector<int32_t> expected_count(bins);
      std::vector<double> expected_mass(bins);
      for (const float v : p) {
        const auto bits = std::bit_cast<uint32_t>(v);
        if (bits >> level.prefix_shift != level.prefix) continue;
        expected_count[(bits >> level.shift) % bins] += 1;
        expected_mass[(bits >> level.shift) % bins] += static_cast<double>(v);
      }
      std::vector<int32_t> count(bins);
      std::vector<double> mass(bins);
      table().row_histogram(p.data(), n, level, count.data(), mass.data());
      ASSERT_EQ(count, expected_count) << "n " << n;
      ASSERT_EQ(mass, expected_mass) << "n " << n;
      std::fill(count.begin(), count.end(), 0);
      table().row_histogram(p.data(), n, level, count.data(), nullptr);
      ASSERT_EQ(count, expected_count) << "n " << n;
    }
  }
}

float element(DType dtype, const std::byte* p, int64_t i) {
  if (dtype == DType::kFloat32) return reinterpret_cast<const float*>(p)[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(p)[i];
  return dtype == DType::kBFloat16 ? float_from_bf16(bits) : float_from_f16(bits);
}

TEST_P(RowKernels, KeysGoIntoTilesAndValuesIntoRows) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int32_t dim : {1, 8, 16, 20, 64}) {
      const KvLayout layout{.dtype = dtype,
                            .layers = 1,
                            .kv_heads = 1,
                            .head_dim = dim,
                            .value_dim = dim + 3,
                            .block_size = 32};
      // All bits set are a NaN in every type.
      std::vector<float> memory(layout.head_stride() / sizeof(float) + 1,
                                std::bit_cast<float>(~0u));
      auto* head = reinterpret_cast<std::byte*>(memory.data());
      const auto key = random_row(23, dim, -2.0, 2.0);
      const auto value = random_row(29, dim + 3, -2.0, 2.0);
      const int32_t slot = 21;
      table().store_kv(layout, head, slot, key.data(), value.data());
      int64_t written = 0;
      for (int64_t i = 0; i < int64_t{32} * dim; ++i) {
        const int64_t lane = i % 16;
        const int64_t d = i / 16 % dim;
        const int64_t tile = i / 16 / dim;
        const float got = element(dtype, head, i);
        if (tile * 16 + lane != slot) {
          ASSERT_TRUE(std::isnan(got));
          continue;
        }
        ASSERT_EQ(got, stored(dtype, key[d]));
        ++written;
      }
      EXPECT_EQ(written, dim);
      for (int64_t i = 0; i < int64_t{32} * (dim + 3); ++i) {
        const float got = element(dtype, head + layout.value_offset(), i);
        const int64_t d = i - int64_t{slot} * (dim + 3);
        if (d < 0 || d >= dim + 3) {
          ASSERT_TRUE(std::isnan(got));
        } else {
          ASSERT_EQ(got, stored(dtype, value[d]));
        }
      }
    }
  }
}

TEST_P(RowKernels, ValuesInKeysAreNotStoredASecondTime) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const KvLayout layout{.dtype = dtype,
                          .layers = 1,
                          .kv_heads = 1,
                          .head_dim = 20,
                          .value_dim = 17,
                          .values_in_keys = true,
                          .block_size = 16};
    EXPECT_EQ(layout.head_stride(), size_t(16 * 20 * size_of(dtype)));
    std::vector<float> memory(2 * layout.head_stride() / sizeof(float), std::bit_cast<float>(~0u));
    auto* head = reinterpret_cast<std::byte*>(memory.data());
    const auto key = random_row(31, 20, -2.0, 2.0);
    table().store_kv(layout, head, 5, key.data(), key.data());
    for (int64_t i = 0; i < 2 * 16 * 20; ++i) {
      const float got = element(dtype, head, i);
      if (i < 16 * 20 && i % 16 == 5) {
        ASSERT_EQ(got, stored(dtype, key[i / 16]));
      } else {
        ASSERT_TRUE(std::isnan(got)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace rlgen::kernels
