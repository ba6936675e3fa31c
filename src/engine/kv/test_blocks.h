#pragma once

#include "engine/kv/block.h"

// Blocks without a model, for tests.
namespace rlgen::engine::test {

// Blocks of 16 keys of one number each.
inline BlockAllocator make_allocator(int blocks) {
  kernels::KvLayout layout;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 1;
  layout.value_dim = 1;
  return *BlockAllocator::create(*Region::create(int64_t(layout.block_stride()) * blocks), layout);
}

}  // namespace rlgen::engine::test
