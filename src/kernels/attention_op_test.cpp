#include <numeric>
#include <span>

#include "kernels/kernel_test.h"
#include "kernels/ops.h"

// Attention of a whole step, shared by threads.
namespace rlgen::kernels {
namespace {

class AttentionOp : public testing::TestWithParam<int> {
 protected:
  AttentionOp() : pool_(GetParam()), context_{*select_kernels("auto"), &pool_} {}

  // Two sequences, one of them a long prompt, over blocks in no order: as the threads share them
  // and row by row.
  void expect_the_bits_of_rows_alone(const KvLayout& layout, int32_t heads) {
    fill(layout);
    const int32_t first_table[] = {5, 0, 3, 7, 1, 6};
    int32_t second_table[130];  // many keys for one row: shared out by chunks
    std::iota(std::begin(second_table), std::end(second_table), 10);
    const AttentionSequence sequences[] = {
        {.block_table = first_table, .first_row = 0, .rows = 81, .first_position = 9},
        {.block_table = second_table, .first_row = 81, .rows = 1, .first_position = 2070}};
    const std::vector<float> q = numbers_.floats(size_t(82 * heads * layout.head_dim));
    std::vector<float> out(size_t(82 * heads * layout.value_dim), 7.0f);
    AttentionArgs args{.q = q.data(),
                       .ldq = heads * layout.head_dim,
                       .out = out.data(),
                       .ldo = heads * layout.value_dim,
                       .heads = heads,
                       .kv = {memory_.data(), layout},
                       .layer = 1,
                       .scale = 0.35f};
    attention(context_, args, {});
    EXPECT_EQ(out, std::vector<float>(out.size(), 7.0f));
    for (const size_t first : {0, 1}) {
      attention(context_, args, std::span(sequences).subspan(first));
    }
    std::vector<float> alone(out.size());
    args.out = alone.data();
    for (const AttentionSequence& sequence : sequences) row_by_row(args, sequence);
    EXPECT_TRUE(all_same_bits(out, alone));
  }

  // The same in the profiles that round operands, over such a layout or not.
  void expect_in_profiles_that_round(const KvLayout& layout, int32_t heads, bool rounds) {
    rounds_ = rounds;
    for (const Profile profile : {Profile::kBFloat16, Profile::kBFloat16Amx}) {
      context_.profile = profile;
      expect_the_bits_of_rows_alone(layout, heads);
    }
  }

 private:
  static constexpr int32_t kBlocks = 140;

  void fill(const KvLayout& layout) {
    memory_.assign(layout.block_stride() * kBlocks, std::byte{0});
    const KvCacheView kv{memory_.data(), layout};
    for (int32_t slot = 0; slot < 16 * kBlocks; ++slot) {
      const std::vector<float> key = numbers_.floats(size_t(layout.head_dim));
      const std::vector<float> value = numbers_.floats(size_t(layout.value_dim));
      for (int32_t head = 0; head < layout.kv_heads; ++head) {
        context_.table->store_kv(layout, kv.head(slot / 16, 1, head), slot % 16, key.data(),
                                 value.data());
      }
    }
  }

  void row_by_row(const AttentionArgs& args, const AttentionSequence& sequence) {
    for (int64_t row = 0; row < sequence.rows; ++row) {
      for (int32_t head = 0; head < args.kv.layout.kv_heads; ++head) {
        const AttentionTask task = {.kv_head = head, .row_begin = row, .row_end = row + 1};
        std::vector<float> scratch(size_t(context_.table->attention_scratch(args, task)));
        const auto attend = rounds_ ? rounded_kernels(*context_.table, context_.profile).attention
                                    : context_.table->attention;
        attend(args, sequence, task, scratch.data());
      }
    }
  }

  TestNumbers numbers_{23};
  ThreadPool pool_;
  KernelContext context_;
  bool rounds_ = false;
  std::vector<std::byte> memory_;
};
INSTANTIATE_TEST_SUITE_P(Threads, AttentionOp, testing::Values(1, 2, 3),
                         [](const auto& info) { return std::to_string(info.param); });

constexpr KvLayout kLatent{.dtype = DType::kBFloat16,
                           .layers = 2,
                           .kv_heads = 1,
                           .head_dim = 20,
                           .value_dim = 13,
                           .values_in_keys = true,
                           .block_size = 16};

TEST_P(AttentionOp, HasTheBitsOfRowsAlone) {
  expect_the_bits_of_rows_alone(
      {.layers = 2, .kv_heads = 2, .head_dim = 8, .value_dim = 8, .block_size = 16}, 4);
}

TEST_P(AttentionOp, ManyHeadsThatShareOneKeyArePartedAmongThreads) {
  expect_the_bits_of_rows_alone(kLatent, 11);
  expect_the_bits_of_rows_alone(kLatent, 70);
}

TEST_P(AttentionOp, ProfilesThatRoundDoSoOverACacheOfBfloat16Alone) {
  KvLayout layout{.layers = 2, .kv_heads = 2, .head_dim = 12, .value_dim = 12, .block_size = 16};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    layout.dtype = dtype;
    expect_in_profiles_that_round(layout, 4, dtype == DType::kBFloat16);
  }
  expect_in_profiles_that_round(kLatent, 11, false);
}

}  // namespace
}  // namespace rlgen::kernels
