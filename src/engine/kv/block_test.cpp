#include "engine/kv/block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace rlgen::engine {
namespace {

kernels::KvLayout small_layout() {
  kernels::KvLayout layout;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 4;
  layout.value_dim = 4;
  return layout;
}

BlockAllocator small_allocator(int blocks) {
  const kernels::KvLayout layout = small_layout();
  auto region = *Region::create(int64_t(layout.block_stride()) * blocks);
  return *BlockAllocator::create(region, layout);
}

TEST(KvBlock, LastShareFreesTheBlock) {
  BlockAllocator allocator = small_allocator(2);
  KvBlock first = allocator.allocate();
  EXPECT_EQ(allocator.free(), 1);
  {
    KvBlock second = first;
    EXPECT_EQ(second.id(), first.id());
    EXPECT_EQ(first.shares(), 2);
    first = KvBlock();
    EXPECT_EQ(allocator.free(), 1);
    EXPECT_TRUE(allocator.audit().ok());
  }
  EXPECT_EQ(allocator.free(), 2);
  EXPECT_TRUE(allocator.audit().ok());
}

TEST(KvBlock, MoveHandsOverAndLeavesNothing) {
  BlockAllocator allocator = small_allocator(1);
  KvBlock first = allocator.allocate();
  KvBlock second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.id(), -1);
  EXPECT_EQ(second.shares(), 1);
  KvBlock& same = second;
  second = same;
  EXPECT_EQ(second.shares(), 1);
  EXPECT_TRUE(allocator.audit().ok());
}

TEST(KvBlock, ExhaustedAllocatorGivesEmptyHandles) {
  BlockAllocator allocator = small_allocator(3);
  std::vector<KvBlock> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(allocator.allocate());
  EXPECT_FALSE(allocator.allocate());
  const int32_t id = blocks[1].id();
  blocks.erase(blocks.begin() + 1);
  EXPECT_EQ(allocator.allocate().id(), id);
  EXPECT_EQ(allocator.free(), 1);
}

TEST(KvBlock, HandleMayOutliveTheAllocatorObject) {
  KvBlock block;
  {
    BlockAllocator allocator = small_allocator(1);
    block = allocator.allocate();
  }
  EXPECT_EQ(block.shares(), 1);
}

TEST(BlockAllocator, CountsBlocksForPositions) {
  const BlockAllocator allocator = small_allocator(1);
  EXPECT_EQ(allocator.blocks_for(0), 0);
  EXPECT_EQ(allocator.blocks_for(1), 1);
  EXPECT_EQ(allocator.blocks_for(16), 1);
  EXPECT_EQ(allocator.blocks_for(17), 2);
}

// Whatever the type and the number of rows: the slots that count and the side bytes, and nothing of
// another block.
TEST(BlockAllocator, CopiesRowsOfEveryLayerAndHeadAndTheSideBytes) {
  for (const bool values_in_keys : {false, true}) {
    kernels::KvLayout layout{.dtype = DType::kBFloat16,
                             .layers = 3,
                             .kv_heads = 2,
                             .head_dim = 6,
                             .value_dim = 4,
                             .values_in_keys = values_in_keys,
                             .block_size = 48,
                             .side_bytes = 100};
    const auto stride = int64_t(layout.block_stride());
    const BlockAllocator allocator = *BlockAllocator::create(*Region::create(stride * 3), layout);
    const kernels::KvCacheView kv = allocator.view();
    for (const int32_t rows : {1, 16, 17, 47}) {
      for (int64_t i = 0; i < stride * 3; ++i) kv.data[i] = std::byte(i < stride ? i % 251 : 255);
      allocator.copy_rows(0, 1, rows);
      const auto same = [&](int32_t layer, int32_t head, size_t offset, int64_t count) {
        return std::memcmp(kv.head(0, layer, head) + offset, kv.head(1, layer, head) + offset,
                           size_t(count * 2)) == 0;
      };
      for (int32_t layer = 0; layer < layout.layers; ++layer) {
        for (int32_t head = 0; head < layout.kv_heads; ++head) {
          const int32_t tiles = (rows + 15) / 16;
          EXPECT_TRUE(same(layer, head, 0, int64_t{tiles} * 16 * layout.head_dim)) << rows;
          if (values_in_keys) continue;
          EXPECT_TRUE(same(layer, head, layout.value_offset(), int64_t{rows} * layout.value_dim));
          EXPECT_FALSE(same(layer, head, layout.value_offset(), int64_t{48} * layout.value_dim));
        }
      }
      const std::byte* side = kv.data + layout.side_offset();
      EXPECT_EQ(std::memcmp(side, side + stride, layout.side_bytes), 0);
      for (int64_t i = stride * 2; i < stride * 3; ++i) ASSERT_EQ(kv.data[i], std::byte{255});
    }
  }
}

TEST(BlockAllocator, RefusesMemoryThatIsTooSmallAndBadBlockSizes) {
  kernels::KvLayout layout = small_layout();
  const Status small = BlockAllocator::create(*Region::create(64), layout).status();
  EXPECT_EQ(small.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(small).find("holds 0 blocks"), std::string::npos);
  layout.block_size = 24;
  const Status odd = BlockAllocator::create(*Region::create(1 << 20), layout).status();
  EXPECT_NE(message_of(odd).find("block_size is 24"), std::string::npos);
}

}  // namespace
}  // namespace rlgen::engine
