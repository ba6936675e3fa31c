#pragma once

#include <cstdint>
#include <unordered_set>

#include "base/status.h"
#include "contract/ids.h"
#include "engine/kv/prefix_cache.h"
#include "engine/schedule/sequence.h"

namespace rlgen::engine {

// Counts since start. Hits and misses are rows of finished prefills, repeated ones counted again:
// together they are all rows of those prefills.
struct PrefixStats {
  int64_t hit_tokens = 0;
  int64_t miss_tokens = 0;
  int64_t evictions = 0;  // blocks
};

// What sequences take from the prefix cache and give to it. Only full blocks are shared, so nobody
// writes to a shared block: the last, partial block of a sequence is always its own. A sequence
// takes blocks up to its first wanted row, which is always computed. Sequences with KV of several
// sets of weights, or with given routes, neither take nor give.
class PrefixSharing {
 public:
  // `allocator` must outlive it. Not `enabled`: every call does nothing.
  PrefixSharing(bool enabled, BlockAllocator* allocator);

  // KV is made by the weights of that serial from now on. Blocks of another serial are forgotten.
  void set_serial(WeightSerial serial);
  // Forgets all blocks. Nobody may hold a published one.
  void forget() { cache_.clear(); }

  // Adds published blocks to the end of a sequence's own, as far as they go on without a gap.
  void take(Sequence* sequence);
  // Publishes the blocks that are full, and swaps one for a published block of the same content.
  // Call it when rows were computed; counts a prefill that is done.
  void give(Sequence* sequence);
  // Of the blocks that take() would add: those that running sequences hold, so that they cost the
  // pool nothing.
  int32_t held_blocks(const Sequence& sequence) const;

  // While a step is planned: notes the block that a planned sequence fills, and says whether
  // another one had better wait for it.
  void claim(const Sequence& sequence);
  bool claimed(const Sequence& sequence) const;
  void drop_claims() { claims_.clear(); }

  // Frees the block that has been idle for longest; false when none is idle.
  bool evict() { return cache_.evict(); }

  PrefixStats stats() const;
  Status audit() const { return cache_.audit(); }

 private:
  BlockKeyView key(const Sequence& sequence, int32_t block, uint64_t parent) const;
  bool can_take(const Sequence& sequence) const;

  bool enabled_;
  BlockAllocator* allocator_;
  PrefixCache cache_;
  WeightSerial serial_ = 0;
  std::unordered_set<BlockKeyView, BlockKeyHash, BlockKeyEqual> claims_;
  PrefixStats stats_;
};

}  // namespace rlgen::engine
