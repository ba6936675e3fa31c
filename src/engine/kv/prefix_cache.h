#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "contract/ids.h"
#include "engine/kv/block.h"

namespace rlgen::engine {

// What the KV of one full block depends on, field by field; nothing is run together, so an adapter
// cannot be taken for a salt. Points into memory of the caller.
struct BlockKeyView {
  WeightSerial serial = 0;
  int32_t adapter_slot = -1;
  std::string_view cache_salt;
  uint64_t parent = 0;  // entry of the block before; 0 for the first block of a sequence
  std::span<const int32_t> ids;
};

// The same, owned.
struct BlockKey {
  explicit BlockKey(const BlockKeyView& view);
  BlockKeyView view() const { return {serial, adapter_slot, cache_salt, parent, ids}; }

  WeightSerial serial;
  int32_t adapter_slot;
  std::string cache_salt;
  uint64_t parent;
  std::vector<int32_t> ids;
};

bool same_key(const BlockKeyView& a, const BlockKeyView& b);

// Covers every field and every id.
uint64_t hash_key(const BlockKeyView& key);

// For containers of keys. A hash only finds candidates: equality is same_key.
struct BlockKeyHash {
  using is_transparent = void;
  uint64_t (*hash)(const BlockKeyView&) = hash_key;
  size_t operator()(const BlockKeyView& key) const { return hash(key); }
  size_t operator()(const BlockKey& key) const { return hash(key.view()); }
};
struct BlockKeyEqual {
  using is_transparent = void;
  static BlockKeyView view(const BlockKeyView& key) { return key; }
  static BlockKeyView view(const BlockKey& key) { return key.view(); }
  bool operator()(const auto& a, const auto& b) const { return same_key(view(a), view(b)); }
};

// Finds full KV blocks by what they hold. The blocks themselves stay with the allocator: an entry
// marks its block cached, so that it outlives its last share as an idle block until it is evicted.
// Who holds a published block holds the blocks of its whole chain and gives them back from the end,
// so that the block that has been idle for longest never is the parent of another. One thread.
class PrefixCache {
 public:
  struct Hit {
    uint64_t entry = 0;  // parent of the next block; 0: not found
    int32_t block = -1;
  };

  // `allocator` must outlive the cache. `hash` is for tests.
  explicit PrefixCache(BlockAllocator* allocator, uint64_t (*hash)(const BlockKeyView&) = hash_key);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  Hit find(const BlockKeyView& key) const;

  // Publishes a full block that the caller holds. Where the key is known already, the block that is
  // published under it is the answer, and the caller swaps its own for it: both hold the same bits.
  Hit publish(const BlockKeyView& key, int32_t block);

  // Frees the block that has been idle for longest; false when none is idle.
  bool evict();

  // Forgets everything; held blocks stay with their holders.
  void clear();

  int64_t size() const { return int64_t(entries_.size()); }
  int64_t evictions() const { return evictions_; }

  // Each entry has its own marked block, ids that fill it and, but for a first block, a parent that
  // is there; no other block is marked. kInternal names the fault.
  Status audit() const;

 private:
  struct Entry {
    uint64_t id = 0;
    int32_t block = -1;
  };

  BlockAllocator* allocator_;
  std::unordered_map<BlockKey, Entry, BlockKeyHash, BlockKeyEqual> entries_;
  std::vector<const BlockKey*> key_of_block_;  // by block id; null where not published
  uint64_t last_id_ = 0;                       // given out once each, so that no parent comes back
  int64_t evictions_ = 0;
};

}  // namespace rlgen::engine
