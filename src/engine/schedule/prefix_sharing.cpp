#include "engine/schedule/prefix_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rlgen::engine {

PrefixSharing::PrefixSharing(bool enabled, BlockAllocator* allocator)
    : enabled_(enabled), allocator_(allocator), cache_(allocator) {}

void PrefixSharing::set_serial(WeightSerial serial) {
  withdraw_all();
  if (serial != serial_) cache_.clear();
  serial_ = serial;
}

BlockKeyView PrefixSharing::key(const Sequence& sequence, int32_t first, int32_t rows,
                                uint64_t parent) const {
  return {.serial = serial_,
          .adapter_slot = sequence.request.adapter_slot,
          .cache_salt = sequence.request.cache_salt,
          .parent = parent,
          .ids = std::span(sequence.tokens).subspan(size_t(first), size_t(rows))};
}

BlockKeyView PrefixSharing::block_key(const Sequence& sequence, int32_t block,
                                      uint64_t parent) const {
  const int32_t size = allocator_->block_size();
  return key(sequence, block * size, size, parent);
}

int32_t PrefixSharing::tail_block(const Sequence& sequence) const {
  return (sequence.prompt_len - 1) / allocator_->block_size();
}

BlockKeyView PrefixSharing::tail_key(const Sequence& sequence, uint64_t parent) const {
  const int32_t first = tail_block(sequence) * allocator_->block_size();
  return key(sequence, first, sequence.prompt_len - 1 - first, parent);
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
    const auto hit = cache_.find(block_key(*sequence, sequence->published, sequence->cache_parent));
    if (hit.entry == 0) return;
    sequence->blocks.push_back(allocator_->share(hit.block));
    sequence->block_table.push_back(hit.block);
    sequence->computed += allocator_->block_size();
    sequence->taken += allocator_->block_size();
    list_tail(sequence);
    sequence->cache_parent = hit.entry;
    ++sequence->published;
  }
}

// No block is begun behind the published ones, and the tail is not wanted itself.
bool PrefixSharing::tail_is_next(const Sequence& sequence) const {
  const int32_t first = sequence.published * allocator_->block_size();
  return enabled_ && sequence.shares_blocks() && sequence.computed == first &&
         sequence.published == int32_t(sequence.blocks.size()) &&
         sequence.published == tail_block(sequence) && first < sequence.prompt_len - 1 &&
         sequence.first_wanted() >= sequence.prompt_len - 1;
}

void PrefixSharing::copy_tail(Sequence* sequence) {
  if (tails_.empty() || !tail_is_next(*sequence)) return;
  const auto found = tails_.find(tail_key(*sequence, sequence->cache_parent));
  if (found == tails_.end()) return;
  KvBlock block = new_block();
  if (!block) return;
  const KvBlock& source = found->second.front()->blocks[size_t(sequence->published)];
  const int32_t rows = int32_t(found->first.ids.size());
  allocator_->copy_rows(source.id(), block.id(), rows);
  sequence->block_table.push_back(block.id());
  sequence->blocks.push_back(std::move(block));
  sequence->computed += rows;
  sequence->taken += rows;
  list_tail(sequence);
}

// While the parent of the tail's block is at hand: before that block is published.
void PrefixSharing::list_tail(Sequence* sequence) {
  if (sequence->tail != nullptr || !sequence->shares_blocks() ||
      sequence->published != tail_block(*sequence) ||
      sequence->computed < sequence->prompt_len - 1) {
    return;
  }
  const BlockKeyView view = tail_key(*sequence, sequence->cache_parent);
  if (view.ids.empty()) return;
  auto found = tails_.find(view);
  if (found == tails_.end()) found = tails_.try_emplace(BlockKey(view)).first;
  found->second.push_back(sequence);
  sequence->tail = &found->first;
}

void PrefixSharing::withdraw(Sequence* sequence) {
  if (sequence->tail == nullptr) return;
  const auto found = tails_.find(*sequence->tail);
  std::erase(found->second, sequence);
  if (found->second.empty()) tails_.erase(found);
  sequence->tail = nullptr;
}

void PrefixSharing::withdraw_all() {
  for (auto& [key, sequences] : tails_) {
    for (Sequence* sequence : sequences) sequence->tail = nullptr;
  }
  tails_.clear();
}

KvBlock PrefixSharing::new_block() {
  KvBlock block = allocator_->allocate();
  if (!block && cache_.evict()) block = allocator_->allocate();
  return block;
}

int32_t PrefixSharing::held_blocks(const Sequence& sequence) const {
  if (!can_take(sequence)) return 0;
  const int32_t end = sequence.first_wanted() / allocator_->block_size();
  uint64_t parent = sequence.cache_parent;
  int32_t held = 0;
  for (int32_t block = sequence.published; block < end; ++block) {
    const auto hit = cache_.find(block_key(sequence, block, parent));
    if (hit.entry == 0 || allocator_->shares(hit.block) == 0) break;
    parent = hit.entry;
    ++held;
  }
  return held;
}

bool PrefixSharing::give(Sequence* sequence) {
  if (!enabled_) return false;
  const bool was_listed = sequence->tail != nullptr;
  const int32_t full = sequence->computed / allocator_->block_size();
  while (sequence->shares_blocks() && sequence->published < full) {
    list_tail(sequence);
    const auto block = size_t(sequence->published);
    const int32_t own = sequence->blocks[block].id();
    const auto hit =
        cache_.publish(block_key(*sequence, int32_t(block), sequence->cache_parent), own);
    if (hit.block != own) {
      sequence->blocks[block] = allocator_->share(hit.block);
      sequence->block_table[block] = hit.block;
    }
    sequence->cache_parent = hit.entry;
    ++sequence->published;
  }
  list_tail(sequence);
  count_prefill(sequence);
  return !was_listed && sequence->tail != nullptr;
}

void PrefixSharing::count_prefill(Sequence* sequence) {
  if (sequence->prefilled || sequence->remaining() > 0) return;
  sequence->prefilled = true;
  if (!sequence->cached_tokens) sequence->cached_tokens = sequence->taken;
  stats_.hit_tokens += sequence->taken;
  stats_.miss_tokens += sequence->computed - sequence->taken;
}

void PrefixSharing::claim(const Sequence& sequence) {
  if (!enabled_ || !sequence.shares_blocks()) return;
  if (sequence.published == tail_block(sequence) && sequence.computed < sequence.prompt_len - 1) {
    claims_.insert(tail_key(sequence, sequence.cache_parent));
  }
  const int64_t end = int64_t(sequence.published + 1) * allocator_->block_size();
  if (end > int64_t(sequence.tokens.size())) return;
  claims_.insert(block_key(sequence, sequence.published, sequence.cache_parent));
}

bool PrefixSharing::claimed(const Sequence& sequence) const {
  if (claims_.empty()) return false;
  const uint64_t parent = sequence.cache_parent;
  return (can_take(sequence) &&
          claims_.contains(block_key(sequence, sequence.published, parent))) ||
         (tail_is_next(sequence) && claims_.contains(tail_key(sequence, parent)));
}

Status PrefixSharing::audit() const {
  for (const auto& [key, sequences] : tails_) {
    for (const Sequence* sequence : sequences) {
      if (sequence->running && sequence->tail == &key &&
          sequence->computed + 1 >= sequence->prompt_len) {
        continue;
      }
      return absl::InternalError(fmt::format("sequence {} is listed with a tail of {} ids, {} rows",
                                             sequence->request.id, key.ids.size(),
                                             sequence->computed));
    }
  }
  return cache_.audit();
}

PrefixStats PrefixSharing::stats() const {
  PrefixStats stats = stats_;
  stats.evictions = cache_.evictions();
  return stats;
}

}  // namespace rlgen::engine
