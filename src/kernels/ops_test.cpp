#include "kernels/ops.h"

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

// Small, large enough to be split, with many rows, and large enough for parts finer than threads.
constexpr Shape3 kShapes[] = {{0, 16, 8},     {1, 5, 3},      {1, 2000, 600}, {3, 1030, 400},
                              {5, 1030, 400}, {64, 300, 300}, {257, 40, 64},  {600, 272, 500}};

TEST_P(Ops, LinearHasTheBitsOfOneCall) {
  for (const auto [m, n, k] : kShapes) {
    const Floats x = numbers_.floats(size_t(m * k));
    const Floats bias = numbers_.floats(size_t(n));
    std::vector<std::byte> packed(packed_bytes(DType::kFloat32, n, k));
    const Floats weights = numbers_.floats(size_t(n * k));
    pack_rows(packed.data(), DType::kFloat32, n, k, 0, n,
              reinterpret_cast<const std::byte*>(weights.data()));
    Floats whole(size_t(m * n) + 1, 7.0f);
    Floats split = whole;
    LinearArgs args{.x = x.data(),
                    .ldx = k,
                    .w = {packed.data(), DType::kFloat32, n, k},
                    .bias = bias.data(),
                    .y = whole.data(),
                    .ldy = n,
                    .m = m};
    context_.table->linear(args, 0, (n + 15) / 16);
    args.y = split.data();
    linear(context_, args);
    EXPECT_TRUE(all_same_bits(split, whole)) << m << "x" << n << "x" << k;
  }
}

TEST_P(Ops, RowsHaveTheBitsOfRowsAlone) {
  for (const int64_t rows : {0, 1, 2, 7, 300}) {
    const int64_t n = 577;
    const Floats x = numbers_.floats(size_t(rows * n));
    const Floats y = numbers_.floats(size_t(rows * 2 * n), -4.0f, 4.0f);
    const Floats weight = numbers_.floats(size_t(n));
    Floats normed(size_t(rows * n));
    rms_norm(context_, x.data(), rows, n, weight.data(), 1e-5f, normed.data());
    Floats summed = x;
    add(context_, summed.data(), y.data(), rows, n);
    Floats silu(size_t(rows * n));
    Floats gelu(size_t(rows * n));
    gated_activation(context_, Activation::kSilu, y.data(), rows, n, silu.data());
    gated_activation(context_, Activation::kGeluTanh, y.data(), rows, n, gelu.data());
    for (int64_t r = 0; r < rows; ++r) {
      const auto row_of = [&](const Floats& all) {
        return Floats(all.begin() + r * n, all.begin() + (r + 1) * n);
      };
      Floats want(static_cast<size_t>(n));
      context_.table->rms_norm(&x[size_t(r * n)], weight.data(), n, 1e-5f, want.data());
      EXPECT_EQ(row_of(normed), want);
      want = row_of(x);
      context_.table->add(want.data(), &y[size_t(r * n)], n);
      EXPECT_EQ(row_of(summed), want);
      const float* gate = &y[size_t(r * 2 * n)];
      context_.table->silu_mul(gate, gate + n, n, want.data());
      EXPECT_EQ(row_of(silu), want);
      context_.table->gelu_tanh_mul(gate, gate + n, n, want.data());
      EXPECT_EQ(row_of(gelu), want);
    }
  }
}

// Two sequences, one of them a long prompt, over blocks in no order.
TEST_P(Ops, AttentionHasTheBitsOfRowsAlone) {
  KvLayout layout{.layers = 2, .kv_heads = 2, .head_dim = 8, .value_dim = 8, .block_size = 16};
  constexpr int32_t kBlocks = 8;
  std::vector<std::byte> memory(layout.block_stride() * kBlocks);
  const KvCacheView kv{memory.data(), layout};
  const Floats keys = numbers_.floats(16 * kBlocks * 8);
  const Floats values = numbers_.floats(16 * kBlocks * 8);
  for (int32_t slot = 0; slot < 16 * kBlocks; ++slot) {
    for (int32_t head = 0; head < 2; ++head) {
      context_.table->store_kv(layout, kv.head(slot / 16, 1, head), slot % 16,
                               &keys[size_t(slot * 8)], &values[size_t(slot * 8)]);
    }
  }
  const int32_t first_table[] = {5, 0, 3, 7, 1, 6};
  const int32_t second_table[] = {2, 4};
  const AttentionSequence sequences[] = {
      {.block_table = first_table, .first_row = 0, .rows = 81, .first_position = 9},
      {.block_table = second_table, .first_row = 81, .rows = 1, .first_position = 30}};
  const Floats q = numbers_.floats(82 * 4 * 8);
  Floats out(q.size(), 7.0f);
  const AttentionArgs args{.q = q.data(),
                           .ldq = 32,
                           .out = out.data(),
                           .ldo = 32,
                           .heads = 4,
                           .kv = kv,
                           .layer = 1,
                           .scale = 0.35f};
  attention(context_, args, {});
  EXPECT_EQ(out, Floats(q.size(), 7.0f));
  attention(context_, args, sequences);
  Floats alone(q.size());
  AttentionArgs one = args;
  one.out = alone.data();
  Floats scratch(size_t(context_.table->attention_scratch(one, 1)));
  for (int32_t s = 0; s < 2; ++s) {
    for (int64_t row = 0; row < sequences[s].rows; ++row) {
      for (int32_t head = 0; head < 2; ++head) {
        context_.table->attention(
            one, sequences[s],
            {.sequence = s, .kv_head = head, .row_begin = row, .row_end = row + 1}, scratch.data());
      }
    }
  }
  EXPECT_TRUE(all_same_bits(out, alone));
  EXPECT_NE(out[0], 7.0f);
}

// A host may have left any rounding mode behind; the kernels are not to see it.
TEST_P(Ops, TheCallersFloatModeDoesNotReachTheKernels) {
  const Floats x = {0x1p-140f, 1.0f};
  const Floats y = {0x1p-149f, 0x1p-25f};
  Floats sum = x;
  {
    const ScopedFloatMode flush(FloatMode::kFlush);
    add(context_, sum.data(), y.data(), 1, 2);
  }
  EXPECT_EQ(sum[0], 0x1p-140f + 0x1p-149f);
  EXPECT_EQ(sum[1], 1.0f);
}

}  // namespace
}  // namespace rlgen::kernels
