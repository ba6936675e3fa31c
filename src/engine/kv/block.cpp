#include "engine/kv/block.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace rlgen::engine {

struct BlockPool {
  std::shared_ptr<Region> region;
  kernels::KvLayout layout;
  std::vector<int32_t> shares;  // by block id
  std::vector<int32_t> free;    // taken from the back
};

KvBlock::KvBlock(std::shared_ptr<BlockPool> pool, int32_t id) : pool_(std::move(pool)), id_(id) {
  ++pool_->shares[size_t(id_)];
}

KvBlock::KvBlock(const KvBlock& other) : pool_(other.pool_), id_(other.id_) {
  if (pool_) ++pool_->shares[size_t(id_)];
}

KvBlock::KvBlock(KvBlock&& other) noexcept
    : pool_(std::move(other.pool_)), id_(std::exchange(other.id_, -1)) {}

KvBlock& KvBlock::operator=(KvBlock other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(id_, other.id_);
  return *this;
}

KvBlock::~KvBlock() {
  if (!pool_) return;
  if (--pool_->shares[size_t(id_)] == 0) pool_->free.push_back(id_);
}

int32_t KvBlock::shares() const { return pool_ ? pool_->shares[size_t(id_)] : 0; }

StatusOr<BlockAllocator> BlockAllocator::create(std::shared_ptr<Region> region,
                                                const kernels::KvLayout& layout) {
  if (layout.block_size < 16 || layout.block_size % 16 != 0) {
    return absl::InvalidArgumentError(
        fmt::format("block_size is {}; use a positive multiple of 16", layout.block_size));
  }
  const int64_t total = region->size() / int64_t(layout.block_stride());
  if (total < 1 || total > INT32_MAX) {
    return absl::InvalidArgumentError(
        fmt::format("KV memory of {} bytes holds {} blocks of {} bytes; give kv_cache_memory_bytes "
                    "room for 1 to 2147483647 blocks",
                    region->size(), total, layout.block_stride()));
  }
  auto pool = std::make_shared<BlockPool>();
  pool->region = std::move(region);
  pool->layout = layout;
  pool->shares.assign(size_t(total), 0);
  pool->free.reserve(size_t(total));
  for (auto id = int32_t(total); id-- > 0;) pool->free.push_back(id);
  return BlockAllocator(std::move(pool));
}

KvBlock BlockAllocator::allocate() {
  if (pool_->free.empty()) return {};
  const int32_t id = pool_->free.back();
  pool_->free.pop_back();
  return KvBlock(pool_, id);
}

int32_t BlockAllocator::total() const { return int32_t(pool_->shares.size()); }
int32_t BlockAllocator::free() const { return int32_t(pool_->free.size()); }
int32_t BlockAllocator::block_size() const { return pool_->layout.block_size; }

int32_t BlockAllocator::blocks_for(int64_t positions) const {
  return int32_t((positions + block_size() - 1) / block_size());
}

kernels::KvCacheView BlockAllocator::view() const { return {pool_->region->data(), pool_->layout}; }

Status BlockAllocator::audit() const {
  std::vector<int32_t> listed(pool_->shares.size(), 0);
  for (const int32_t id : pool_->free) ++listed[size_t(id)];
  for (size_t id = 0; id < listed.size(); ++id) {
    const bool held = pool_->shares[id] > 0;
    if (pool_->shares[id] < 0 || listed[id] != (held ? 0 : 1)) {
      return absl::InternalError(fmt::format("KV block {} has {} shares and is {} times free", id,
                                             pool_->shares[id], listed[id]));
    }
  }
  return absl::OkStatus();
}

}  // namespace rlgen::engine
