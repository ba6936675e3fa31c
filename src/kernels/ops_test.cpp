#include "kernels/ops.h"

#include <atomic>

#include "kernels/kernel_test.h"

namespace rlgen::kernels {
namespace {

class Ops : public testing::TestWithParam<int> {
 protected:
  Ops() : pool_(GetParam()), context_{*select_kernels("auto"), &pool_} {}

  TestNumbers numbers_{17};
  ThreadPool pool_;
  KernelContext context_;
};
INSTANTIATE_TEST_SUITE_P(Threads, Ops, testing::Values(1, 2, 3),
                         [](const auto& info) { return std::to_string(info.param); });

using Floats = std::vector<float>;

struct Shape3 {
  int64_t m;
  int64_t n;
  int64_t k;
};

// Small, large enough to be split, with many rows, large enough for parts finer than threads, with
// rows of x that are copied because they lie a power of two apart, and of so many rows that a gated
// layer makes them in pieces.
constexpr Shape3 kShapes[] = {{0, 16, 8},     {1, 5, 3},      {1, 2000, 600}, {3, 1030, 400},
                              {5, 1030, 400}, {64, 300, 300}, {257, 40, 64},  {600, 272, 500},
                              {1, 4096, 300}, {33, 512, 96},  {9, 48, 1024},  {64, 300, 2048},
                              {300, 512, 9}};

// A product with random operands, and its result by one call of the kernel.
struct Product {
  Product(const KernelTable& table, TestNumbers& numbers, Shape3 shape)
      : x(numbers.floats(size_t(shape.m * shape.k))),
        bias(numbers.floats(size_t(shape.n))),
        packed(packed_bytes(DType::kFloat32, shape.n, shape.k)),
        y(size_t(shape.m * shape.n) + 1, 7.0f),
        whole(y) {
    const Floats weights = numbers.floats(size_t(shape.n * shape.k));
    pack_rows(packed.data(), DType::kFloat32, shape.n, shape.k, 0, shape.n,
              reinterpret_cast<const std::byte*>(weights.data()));
    args = {.x = x.data(),
            .ldx = shape.k,
            .w = {packed.data(), DType::kFloat32, shape.n, shape.k},
            .bias = bias.data(),
            .y = whole.data(),
            .ldy = shape.n,
            .m = shape.m};
    table.linear(args, 0, (shape.n + 15) / 16);
    args.y = y.data();
  }

  Floats x;
  Floats bias;
  std::vector<std::byte> packed;
  Floats y;
  Floats whole;
  LinearArgs args;
};

TEST_P(Ops, LinearHasTheBitsOfOneCall) {
  for (const Shape3 shape : kShapes) {
    Product product(*context_.table, numbers_, shape);
    linear(context_, product.args);
    EXPECT_TRUE(all_same_bits(product.y, product.whole))
        << shape.m << "x" << shape.n << "x" << shape.k;
  }
}

// Each element is in one block, which has its final value, and no block cuts a unit.
TEST_P(Ops, BlocksAreFinishedOnce) {
  for (const Shape3 shape : kShapes) {
    for (const int64_t unit : {1, 16, 24, 64}) {
      Product product(*context_.table, numbers_, shape);
      std::vector<std::atomic<int>> finished(product.y.size());
      linear(context_, product.args, unit, [&](const OutputBlock& block) {
        EXPECT_EQ(block.column % unit, 0);
        const int64_t end = block.column + block.columns;
        EXPECT_TRUE(end % unit == 0 || end == shape.n);
        for (int64_t r = block.row; r < block.row + block.rows; ++r) {
          for (int64_t c = block.column; c < end; ++c) {
            const auto at = size_t(r * shape.n + c);
            finished[at] += 1;
            EXPECT_EQ(product.y[at], product.whole[at]);
          }
        }
      });
      for (size_t i = 0; i + 1 < finished.size(); ++i) ASSERT_EQ(finished[i], 1);
    }
  }
}

TEST_P(Ops, LinearAddAddsTheProduct) {
  for (const Shape3 shape : kShapes) {
    Product product(*context_.table, numbers_, shape);
    Floats sum = numbers_.floats(size_t(shape.m * shape.n));
    Floats want = sum;
    context_.table->add(want.data(), product.whole.data(), shape.m * shape.n);
    linear_add(context_, product.args, sum.data());
    EXPECT_TRUE(all_same_bits(sum, want));
  }
}

TEST_P(Ops, GatedLinearActivatesTheProduct) {
  for (const auto activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwiglu}) {
    for (const Shape3 shape : kShapes) {
      const int64_t n = shape.n / 2;
      Product product(*context_.table, numbers_, {shape.m, 2 * n, shape.k});
      Floats want(size_t(shape.m * n));
      const KernelTable& table = *context_.table;
      for (int64_t r = 0; r < shape.m; ++r) {
        const float* gate = &product.whole[size_t(r * 2 * n)];
        float* const row = want.data() + r * n;
        if (activation == Activation::kSilu) table.silu_mul(gate, gate + n, n, row);
        if (activation == Activation::kGeluTanh) table.gelu_tanh_mul(gate, gate + n, n, row);
        if (activation == Activation::kClampedSwiglu) {
          table.clamped_swiglu(gate, gate + n, n, 1.25f, 0.5f, row);
        }
      }
      Floats out(want.size());
      gated_linear(context_, product.args,
                   {.activation = activation, .alpha = 1.25f, .limit = 0.5f}, out.data());
      EXPECT_TRUE(all_same_bits(out, want)) << shape.m << "x" << shape.n << "x" << shape.k;
    }
  }
}

// A matrix for each head: heads side by side in x and in y, with room behind each of y's.
TEST_P(Ops, GroupsPutTheirRowsSideBySide) {
  constexpr int64_t kHeads = 5, kRows = 7, kN = 37, kK = 21, kRoom = 40;
  const size_t bytes = packed_bytes(DType::kFloat32, kN, kK);
  std::vector<std::byte> packed(size_t(kHeads) * bytes);
  const Floats x = numbers_.floats(size_t(kRows * kHeads * kK));
  Floats y(size_t(kRows * kHeads * kRoom), 7.0f);
  Floats want = y;
  std::vector<int32_t> source;
  std::vector<RowGroup> groups;
  for (int64_t head = 0; head < kHeads; ++head) {
    std::byte* const at = packed.data() + size_t(head) * bytes;
    const Floats w = numbers_.floats(size_t(kN * kK));
    pack_rows(at, DType::kFloat32, kN, kK, 0, kN, reinterpret_cast<const std::byte*>(w.data()));
    const PackedMatrix matrix{at, DType::kFloat32, kN, kK};
    groups.push_back(
        {.w = matrix, .row = head * kRows, .rows = kRows, .y = y.data() + head * kRoom});
    for (int64_t row = 0; row < kRows; ++row) source.push_back(int32_t(row * kHeads + head));
    context_.table->linear({.x = x.data() + head * kK,
                            .ldx = kHeads * kK,
                            .w = matrix,
                            .y = want.data() + head * kRoom,
                            .ldy = kHeads * kRoom,
                            .m = kRows},
                           0, (kN + 15) / 16);
  }
  grouped_linear(context_, {.x = x.data(),
                            .ldx = kK,
                            .source = source.data(),
                            .groups = groups,
                            .ldy = kHeads * kRoom,
                            .m = kRows * kHeads});
  EXPECT_TRUE(all_same_bits(y, want));
}

TEST_P(Ops, RowsHaveTheBitsOfRowsAlone) {
  for (const int64_t rows : {0, 1, 2, 7, 300}) {
    const int64_t n = 577;
    const Floats x = numbers_.floats(size_t(rows * n));
    const Floats weight = numbers_.floats(size_t(n));
    Floats normed(size_t(rows * n));
    rms_norm(context_, x.data(), rows, n, weight.data(), 1e-5f, normed.data());
    for (int64_t r = 0; r < rows; ++r) {
      Floats want(static_cast<size_t>(n));
      context_.table->rms_norm(&x[size_t(r * n)], weight.data(), n, 1e-5f, want.data());
      EXPECT_TRUE(
          all_same_bits(want, Floats(normed.begin() + r * n, normed.begin() + (r + 1) * n)));
    }
  }
}

// A host may have left any rounding mode behind; the kernels are not to see it.
TEST_P(Ops, TheCallersFloatModeDoesNotReachTheKernels) {
  const Floats x = {0x1p-140f, 1.0f};
  const Floats one = {1.0f, 0.0f};
  std::vector<std::byte> packed(packed_bytes(DType::kFloat32, 1, 2));
  pack_rows(packed.data(), DType::kFloat32, 1, 2, 0, 1,
            reinterpret_cast<const std::byte*>(one.data()));
  float y = 7.0f;
  {
    const ScopedFloatMode flush(FloatMode::kFlush);
    linear(context_, {.x = x.data(),
                      .ldx = 2,
                      .w = {packed.data(), DType::kFloat32, 1, 2},
                      .y = &y,
                      .ldy = 1,
                      .m = 1});
  }
  EXPECT_EQ(y, 0x1p-140f);
}

}  // namespace
}  // namespace rlgen::kernels
