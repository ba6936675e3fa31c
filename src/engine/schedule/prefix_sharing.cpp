#include "engine/schedule/prefix_sharing.h"

#include <utility>

namespace rlgen::engine {

PrefixSharing::PrefixSharing(bool enabled, BlockAllocator* allocator)
    : enabled_(enabled), allocator_(allocator), cache_(allocator) {}

void PrefixSharing::set_serial(WeightSerial serial) {
  if (serial != serial_) cache_.clear();
  serial_ = serial;
}

BlockKeyView PrefixSharing::key(const Sequence& sequence, int32_t block, uint64_t parent) const {
  const auto size = size_t(allocator_->block_size());
  return {.serial = serial_,
          .adapter_slot = sequence.request.adapter_slot,
          .cache_salt = sequence.request.cache_salt,
          .parent = parent,
          .ids = std::span(sequence.tokens).subspan(size_t(block) * size, size)};
}

bool PrefixSharing::can_take(const Sequence& sequence) const {
  const int32_t size = allocator_->block_size();
  return enabled_ && sequence.shares_blocks() &&
         sequence.published == int32_t(sequence.blocks.size()) &&
         sequence.computed == sequence.published * size &&
         sequence.published < sequence.first_wanted() / size;
}

void PrefixSharing::take(Sequence* sequence) {
  while (can_take(*sequence)) {
    const auto hit = cache_.find(key(*sequence, sequence->published, sequence->cache_parent));
    if (hit.entry == 0) return;
    sequence->blocks.push_back(allocator_->share(hit.block));
    sequence->block_table.push_back(hit.block);
    sequence->computed += allocator_->block_size();
    sequence->taken += allocator_->block_size();
    sequence->cache_parent = hit.entry;
    ++sequence->published;
  }
}

int32_t PrefixSharing::held_blocks(const Sequence& sequence) const {
  if (!can_take(sequence)) return 0;
  const int32_t end = sequence.first_wanted() / allocator_->block_size();
  uint64_t parent = sequence.cache_parent;
  int32_t held = 0;
  for (int32_t block = sequence.published; block < end; ++block) {
    const auto hit = cache_.find(key(sequence, block, parent));
    if (hit.entry == 0 || allocator_->shares(hit.block) == 0) break;
    parent = hit.entry;
    ++held;
  }
  return held;
}

void PrefixSharing::give(Sequence* sequence) {
  if (!enabled_) return;
  const int32_t full = sequence->computed / allocator_->block_size();
  while (sequence->shares_blocks() && sequence->published < full) {
    const auto block = size_t(sequence->published);
    const int32_t own = sequence->blocks[block].id();
    const auto hit = cache_.publish(key(*sequence, int32_t(block), sequence->cache_parent), own);
    if (hit.block != own) {
      sequence->blocks[block] = allocator_->share(hit.block);
      sequence->block_table[block] = hit.block;
    }
    sequence->cache_parent = hit.entry;
    ++sequence->published;
  }
  if (sequence->prefilled || sequence->remaining() > 0) return;
  sequence->prefilled = true;
  if (!sequence->cached_tokens) sequence->cached_tokens = sequence->taken;
  stats_.hit_tokens += sequence->taken;
  stats_.miss_tokens += sequence->computed - sequence->taken;
}

void PrefixSharing::claim(const Sequence& sequence) {
  if (!enabled_ || !sequence.shares_blocks()) return;
  const int64_t end = int64_t(sequence.published + 1) * allocator_->block_size();
  if (end > int64_t(sequence.tokens.size())) return;
  claims_.insert(key(sequence, sequence.published, sequence.cache_parent));
}

bool PrefixSharing::claimed(const Sequence& sequence) const {
  return !claims_.empty() && can_take(sequence) &&
         claims_.contains(key(sequence, sequence.published, sequence.cache_parent));
}

PrefixStats PrefixSharing::stats() const {
  PrefixStats stats = stats_;
  stats.evictions = cache_.evictions();
  return stats;
}

}  // namespace rlgen::engine
