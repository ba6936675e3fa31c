#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/kv_layout.h"
#include "tensor/region.h"

namespace rlgen::engine {

struct BlockPool;

// A share in one KV block. The block returns to its allocator when the last share dies, so a
// reference cannot outlive the block; the block's memory lives as long as any share. Copies share,
// moves hand over and leave the source empty. One thread at a time per allocator.
//
// A block that is marked cached becomes idle with its last share instead of free: its content
// stays, it can be shared again, and it is free once the mark is taken.
class KvBlock {
 public:
  KvBlock() = default;
  KvBlock(const KvBlock& other);
  KvBlock(KvBlock&& other) noexcept;
  KvBlock& operator=(KvBlock other) noexcept;
  ~KvBlock();

  // Index for block tables; -1 for an empty handle.
  int32_t id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  // How many handles share the block; 0 for an empty one.
  int32_t shares() const;

 private:
  friend class BlockAllocator;
  KvBlock(std::shared_ptr<BlockPool> pool, int32_t id);

  std::shared_ptr<BlockPool> pool_;
  int32_t id_ = -1;
};

// Hands out the KV blocks of one engine. One thread at a time.
class BlockAllocator {
 public:
  // As many blocks as `region` has room for. The region's bytes need not be zero: a slot is read
  // only after it was written. kInvalidArgument when not one block fits or the block size is not a
  // positive multiple of 16.
  static StatusOr<BlockAllocator> create(std::shared_ptr<Region> region,
                                         const kernels::KvLayout& layout);

  // An empty handle when no block is free; idle ones are not touched.
  KvBlock allocate();

  // A new share in a block that is held or idle.
  KvBlock share(int32_t id);
  // Marks a held block.
  void mark_cached(int32_t id);
  // Takes the mark; an idle block is free then.
  void unmark_cached(int32_t id);
  bool is_cached(int32_t id) const;
  // The block that has been idle for longest; -1 when there is none.
  int32_t oldest_idle() const;

  int32_t total() const;
  int32_t free() const;
  int32_t idle() const;
  // Handles that share the block.
  int32_t shares(int32_t id) const;
  int32_t block_size() const;
  // Blocks that hold `positions` keys.
  int32_t blocks_for(int64_t positions) const;
  kernels::KvCacheView view() const;

  // Copies the keys and values of the first `rows` slots of a held block, in every layer, and its
  // side bytes to another one. What stands in the slots behind is of no account in either.
  void copy_rows(int32_t from, int32_t to, int32_t rows) const;

  // Every block is in one place: free (no share, no mark), idle (no share, marked) or held.
  // kInternal names the first block for which this fails.
  Status audit() const;

 private:
  explicit BlockAllocator(std::shared_ptr<BlockPool> pool) : pool_(std::move(pool)) {}

  std::shared_ptr<BlockPool> pool_;
};

}  // namespace rlgen::engine
