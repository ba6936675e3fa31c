#include "engine/kv/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rlgen::engine {
namespace {

uint64_t mix(uint64_t state, uint64_t value) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio
  state = (state ^ value) * kOdd;
  return state ^ (state >> 29);
}

}  // namespace

BlockKey::BlockKey(const BlockKeyView& view)
    : serial(view.serial),
      adapter_slot(view.adapter_slot),
      cache_salt(view.cache_salt),
      parent(view.parent),
      ids(view.ids.begin(), view.ids.end()) {}

bool same_key(const BlockKeyView& a, const BlockKeyView& b) {
  return a.parent == b.parent && a.serial == b.serial && a.adapter_slot == b.adapter_slot &&
         a.cache_salt == b.cache_salt && std::ranges::equal(a.ids, b.ids);
}

uint64_t hash_key(const BlockKeyView& key) {
  uint64_t state = mix(key.parent, key.serial);
  state = mix(state, uint64_t(int64_t(key.adapter_slot)));
  state = mix(state, key.cache_salt.size());
  for (const char c : key.cache_salt) state = mix(state, uint64_t(uint8_t(c)));
  for (const int32_t id : key.ids) state = mix(state, uint64_t(uint32_t(id)));
  return state;
}

PrefixCache::PrefixCache(BlockAllocator* allocator, uint64_t (*hash)(const BlockKeyView&))
    : allocator_(allocator),
      entries_(0, BlockKeyHash{hash}),
      key_of_block_(size_t(allocator->total()), nullptr) {}

PrefixCache::Hit PrefixCache::find(const BlockKeyView& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  return {found->second.id, found->second.block};
}

PrefixCache::Hit PrefixCache::publish(const BlockKeyView& key, int32_t block) {
  if (const Hit hit = find(key); hit.entry != 0) return hit;
  const auto placed = entries_.emplace(BlockKey(key), Entry{++last_id_, block}).first;
  key_of_block_[size_t(block)] = &placed->first;
  allocator_->mark_cached(block);
  return {placed->second.id, block};
}

bool PrefixCache::evict() {
  const int32_t block = allocator_->oldest_idle();
  if (block < 0) return false;
  entries_.erase(entries_.find(*key_of_block_[size_t(block)]));
  key_of_block_[size_t(block)] = nullptr;
  allocator_->unmark_cached(block);
  ++evictions_;
  return true;
}

void PrefixCache::clear() {
  for (const auto& [key, entry] : entries_) {
    allocator_->unmark_cached(entry.block);
    key_of_block_[size_t(entry.block)] = nullptr;
  }
  entries_.clear();
}

Status PrefixCache::audit() const {
  std::set<uint64_t> ids = {0};
  for (const auto& [key, entry] : entries_) ids.insert(entry.id);
  for (const auto& [key, entry] : entries_) {
    if (!ids.contains(key.parent) || int32_t(key.ids.size()) != allocator_->block_size()) {
      return absl::InternalError(fmt::format("cache entry {} has {} ids and parent {}, {}",
                                             entry.id, key.ids.size(), key.parent,
                                             ids.contains(key.parent) ? "there" : "gone"));
    }
    if (key_of_block_[size_t(entry.block)] != &key) {
      return absl::InternalError(
          fmt::format("cache entry {} is not the entry of its block {}", entry.id, entry.block));
    }
  }
  for (int32_t block = 0; block < allocator_->total(); ++block) {
    if (allocator_->is_cached(block) != (key_of_block_[size_t(block)] != nullptr)) {
      return absl::InternalError(fmt::format("block {} is {}marked cached", block,
                                             allocator_->is_cached(block) ? "" : "not "));
    }
  }
  const auto published = std::ranges::count_if(key_of_block_, [](auto* key) { return key; });
  if (published == size()) return absl::OkStatus();
  return absl::InternalError(fmt::format("{} blocks for {} cache entries", published, size()));
}

}  // namespace rlgen::engine
