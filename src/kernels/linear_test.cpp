#include "kernels/kernel_test.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

class Linear : public OnEachIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, Linear, testing::ValuesIn(available_isas()), name_of_isa_case);

// A product with its weights packed and, for the plain loop, as float32.
struct Problem {
  std::vector<float> x;
  std::vector<float> weights;  // [n, k]
  std::vector<float> bias;     // empty: none
  std::vector<std::byte> packed;
  LinearArgs args;  // without x's place and y
};

constexpr int64_t kGap = 3;   // floats between rows of x and y
constexpr size_t kShift = 1;  // of x and y against any alignment

float stored_value(DType dtype, float value, uint16_t* half) {
  *half = dtype == DType::kBFloat16 ? bf16_from_float(value) : f16_from_float(value);
  if (dtype == DType::kFloat32) return value;
  return dtype == DType::kBFloat16 ? float_from_bf16(*half) : float_from_f16(*half);
}

Problem make_problem(DType dtype, int64_t m, int64_t n, int64_t k, bool bias, bool hostile) {
  TestNumbers numbers(uint64_t(m * 1000003 + n * 1009 + k));
  const auto value = [&] { return hostile ? numbers.hostile_float() : numbers.between(-1, 1); };
  Problem p;
  p.x.resize(size_t(m * (k + kGap)) + kShift);
  for (float& x : p.x) x = value();
  if (bias) p.bias = numbers.floats(size_t(n));
  p.packed.resize(packed_bytes(dtype, n, k));
  for (int64_t r = 0; r < n; ++r) {
    std::vector<uint16_t> halves(static_cast<size_t>(k));
    std::vector<float> floats(static_cast<size_t>(k));
    for (size_t c = 0; c < floats.size(); ++c) floats[c] = stored_value(dtype, value(), &halves[c]);
    p.weights.insert(p.weights.end(), floats.begin(), floats.end());
    const void* row = dtype == DType::kFloat32 ? static_cast<const void*>(floats.data())
                                               : static_cast<const void*>(halves.data());
    pack_rows(p.packed.data(), dtype, n, k, r, 1, static_cast<const std::byte*>(row));
  }
  p.args.w = {p.packed.data(), dtype, n, k};
  p.args.ldx = k + kGap;
  p.args.ldy = n + kGap;
  p.args.m = m;
  return p;
}

using Result = std::vector<float>;  // y with its gaps

Result run(const KernelTable& table, const Problem& p, int64_t row, int64_t rows,
           int64_t tile_begin, int64_t tile_end) {
  Result y(size_t(rows * p.args.ldy) + kShift, 7.0f);
  LinearArgs args = p.args;
  args.x = p.x.data() + kShift + row * args.ldx;
  args.y = y.data() + kShift;
  args.bias = p.bias.empty() ? nullptr : p.bias.data();
  args.m = rows;
  table.linear(args, tile_begin, tile_end);
  return y;
}

Result plain_loop(const Problem& p, int64_t row, int64_t rows, int64_t first, int64_t last) {
  Result y(size_t(rows * p.args.ldy) + kShift, 7.0f);
  const int64_t k = p.args.w.k;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = first; c < last; ++c) {
      float sum = 0.0f;
      for (int64_t i = 0; i < k; ++i) {
        sum = std::fma(p.x[kShift + size_t((row + r) * p.args.ldx + i)],
                       p.weights[size_t(c * k + i)], sum);
      }
      if (!p.bias.empty()) sum = sum + p.bias[size_t(c)];
      y[kShift + size_t(r * p.args.ldy + c)] = sum;
    }
  }
  return y;
}

int64_t tiles_of(const Problem& p) { return (p.args.w.n + 15) / 16; }

void expect_plain(const KernelTable& table, const Problem& p) {
  EXPECT_TRUE(all_same_bits(run(table, p, 0, p.args.m, 0, tiles_of(p)),
                            plain_loop(p, 0, p.args.m, 0, p.args.w.n)))
      << "m " << p.args.m << " n " << p.args.w.n << " k " << p.args.w.k;
}

TEST_P(Linear, EqualsAPlainFmaLoopAtEveryBorder) {
  for (const DType dtype : kWeightTypes) {
    for (int64_t m = 1; m <= 14; ++m) {
      for (const int64_t n : {1, 16, 17, 129, 150}) {
        expect_plain(table(), make_problem(dtype, m, n, 1 + (m * 7 + n) % 21, n % 2 == 0, false));
      }
    }
    for (const int64_t m : {23, 24, 25, 26, 37, 64}) {
      for (const int64_t n : {15, 32, 49}) {
        expect_plain(table(), make_problem(dtype, m, n, 5 + m % 4, n == 49, false));
      }
    }
  }
}

TEST_P(Linear, EqualsAPlainFmaLoopAtEveryDepth) {
  for (const DType dtype : kWeightTypes) {
    for (const int64_t k : {1, 2, 3, 4, 31, 32, 33, 255, 256, 257, 258, 512, 515}) {
      expect_plain(table(), make_problem(dtype, 2, 17, k, true, false));
      expect_plain(table(), make_problem(dtype, 15, 33, k, k % 2 == 0, false));
    }
  }
}

TEST_P(Linear, HostileValues) {
  for (const DType dtype : kWeightTypes) {
    for (const int64_t k : {1, 2, 5, 8}) {
      expect_plain(table(), make_problem(dtype, 3, 35, k, false, true));
      expect_plain(table(), make_problem(dtype, 26, 35, k, true, true));
    }
  }
}

TEST_P(Linear, ARowAloneHasTheBitsOfARowAmongMany) {
  for (const DType dtype : kWeightTypes) {
    const Problem p = make_problem(dtype, 64, 80, 300, true, false);
    const Result all = run(table(), p, 0, 64, 0, 5);
    for (const int64_t row : {0, 1, 10, 11, 31, 62, 63}) {
      const Result alone = run(table(), p, row, 1, 0, 5);
      const auto begin = all.begin() + int64_t(kShift) + row * p.args.ldy;
      EXPECT_TRUE(all_same_bits(Result(alone.begin() + kShift, alone.begin() + kShift + 80),
                                Result(begin, begin + 80)));
    }
  }
}

TEST_P(Linear, SomeTilesLeaveTheOthersAlone) {
  for (const int64_t m : {1, 5, 30}) {
    const Problem p = make_problem(DType::kBFloat16, m, 150, 40, true, false);
    for (int64_t begin = 0; begin <= 10; ++begin) {
      for (int64_t end = begin; end <= 10; end += 3) {
        const int64_t last = std::min<int64_t>(150, end * 16);
        EXPECT_TRUE(all_same_bits(run(table(), p, 0, m, begin, end),
                                  plain_loop(p, 0, m, std::min(begin * 16, last), last)));
      }
    }
  }
}

TEST_P(Linear, NoRowsWriteNothing) {
  const Problem p = make_problem(DType::kFloat32, 1, 16, 4, false, false);
  EXPECT_EQ(run(table(), p, 0, 0, 0, 1), Result(kShift, 7.0f));
}

// Above this size the weights are fetched ahead, and so beyond their end.
TEST_P(Linear, LargeMatricesToo) {
  const Problem p = make_problem(DType::kBFloat16, 1, 1040, 600, false, false);
  EXPECT_TRUE(all_same_bits(run(table(), p, 0, 1, 0, 65), plain_loop(p, 0, 1, 0, 1040)));
}

// More rows than unfinished sums are kept for at once, over several pieces of k and groups of
// tiles.
TEST_P(Linear, ManyRowsToo) {
  for (const DType dtype : kWeightTypes) {
    expect_plain(table(), make_problem(dtype, 300, 150, 258, true, false));
  }
}

}  // namespace
}  // namespace rlgen::kernels
