#include "engine/kv/block.h"

#include <gtest/gtest.h>

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
