#include "engine/kv/block.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <list>
#include <utility>

namespace rlgen::engine {

struct BlockPool {
  std::shared_ptr<Region> region;
  kernels::KvLayout layout;
  std::vector<int32_t> shares;  // by block id
  std::vector<bool> cached;     // by block id

  // Each id is in one of the lists, so that moving it allocates nothing.
  std::list<int32_t> free;  // taken from the back
  std::list<int32_t> idle;  // oldest first
  std::list<int32_t> held;
  std::vector<std::list<int32_t>::iterator> place;  // by block id

  // To the end of `to`.
  void move(int32_t id, std::list<int32_t>* from, std::list<int32_t>* to) noexcept {
    to->splice(to->end(), *from, place[size_t(id)]);
  }
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
  if (--pool_->shares[size_t(id_)] > 0) return;
  pool_->move(id_, &pool_->held, pool_->cached[size_t(id_)] ? &pool_->idle : &pool_->free);
}

int32_t KvBlock::shares() const { return pool_ ? pool_->shares[size_t(id_)] : 0; }

StatusOr<BlockAllocator> BlockAllocator::create(std::shared_ptr<Region> region,
                                                const kernels::KvLayout& layout) {
  if (layout.block_size < kernels::kTileKeys || layout.block_size % kernels::kTileKeys != 0) {
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
  pool->cached.assign(size_t(total), false);
  pool->place.resize(size_t(total));
  for (auto id = int32_t(total); id-- > 0;) {
    pool->place[size_t(id)] = pool->free.insert(pool->free.end(), id);
  }
  return BlockAllocator(std::move(pool));
}

KvBlock BlockAllocator::allocate() {
  if (pool_->free.empty()) return {};
  const int32_t id = pool_->free.back();
  pool_->move(id, &pool_->free, &pool_->held);
  return KvBlock(pool_, id);
}

KvBlock BlockAllocator::share(int32_t id) {
  if (pool_->shares[size_t(id)] == 0) pool_->move(id, &pool_->idle, &pool_->held);
  return KvBlock(pool_, id);
}

void BlockAllocator::mark_cached(int32_t id) { pool_->cached[size_t(id)] = true; }

void BlockAllocator::unmark_cached(int32_t id) {
  pool_->cached[size_t(id)] = false;
  if (pool_->shares[size_t(id)] == 0) pool_->move(id, &pool_->idle, &pool_->free);
}

bool BlockAllocator::is_cached(int32_t id) const { return pool_->cached[size_t(id)]; }

int32_t BlockAllocator::oldest_idle() const {
  return pool_->idle.empty() ? -1 : pool_->idle.front();
}

int32_t BlockAllocator::total() const { return int32_t(pool_->shares.size()); }
int32_t BlockAllocator::free() const { return int32_t(pool_->free.size()); }
int32_t BlockAllocator::idle() const { return int32_t(pool_->idle.size()); }
int32_t BlockAllocator::shares(int32_t id) const { return pool_->shares[size_t(id)]; }
int32_t BlockAllocator::block_size() const { return pool_->layout.block_size; }

int32_t BlockAllocator::blocks_for(int64_t positions) const {
  return int32_t((positions + block_size() - 1) / block_size());
}

kernels::KvCacheView BlockAllocator::view() const { return {pool_->region->data(), pool_->layout}; }

void BlockAllocator::copy_rows(int32_t from, int32_t to, int32_t rows) const {
  const kernels::KvCacheView kv = view();
  const kernels::KvLayout& layout = kv.layout;
  const size_t element = size_of(layout.dtype);
  const int32_t tiles = (rows + kernels::kTileKeys - 1) / kernels::kTileKeys;
  const size_t keys = size_t(tiles) * kernels::kTileKeys * size_t(layout.head_dim) * element;
  const size_t values = size_t(rows) * size_t(layout.value_dim) * element;
  for (int32_t layer = 0; layer < layout.layers; ++layer) {
    for (int32_t head = 0; head < layout.kv_heads; ++head) {
      const std::byte* source = kv.head(from, layer, head);
      std::byte* target = kv.head(to, layer, head);
      std::memcpy(target, source, keys);
      if (layout.values_in_keys) continue;
      std::memcpy(target + layout.value_offset(), source + layout.value_offset(), values);
    }
  }
  const auto side = [&](int32_t block) {
    return kv.data + size_t(block) * layout.block_stride() + layout.side_offset();
  };
  std::memcpy(side(to), side(from), layout.side_bytes);
}

Status BlockAllocator::audit() const {
  enum Place { kNowhere, kFree, kIdle, kHeld, kTwice };
  std::vector<Place> places(pool_->shares.size(), kNowhere);
  const auto note = [&](const std::list<int32_t>& ids, Place place) {
    for (const int32_t id : ids) {
      Place& noted = places[size_t(id)];
      noted = noted == kNowhere ? place : kTwice;
    }
  };
  note(pool_->free, kFree);
  note(pool_->idle, kIdle);
  note(pool_->held, kHeld);
  for (size_t id = 0; id < places.size(); ++id) {
    const Place unheld = pool_->cached[id] ? kIdle : kFree;
    if (pool_->shares[id] < 0 || places[id] != (pool_->shares[id] > 0 ? kHeld : unheld)) {
      return absl::InternalError(
          fmt::format("KV block {} has {} shares, {} the cache and is {}", id, pool_->shares[id],
                      pool_->cached[id] ? "is in" : "is not in",
                      std::array{"nowhere", "free", "idle", "held", "listed twice"}[places[id]]));
    }
  }
  return absl::OkStatus();
}

}  // namespace rlgen::engine
