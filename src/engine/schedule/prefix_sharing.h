#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "contract/ids.h"
#include "engine/kv/prefix_cache.h"
#include "engine/schedule/sequence.h"

namespace rlgen::engine {

// Counts since start. Hits and misses are rows of finished prefills, repeated ones counted again:
// together they are all rows of those prefills. Rows that were copied are hits.
struct PrefixStats {
  int64_t hit_tokens = 0;
  int64_t miss_tokens = 0;
  int64_t evictions = 0;  // blocks
};

// What sequences take from the prefix cache and give to it, and from each other. Only full blocks
// are shared, so nobody writes to a shared block: the last, partial block of a sequence is always
// its own. A sequence takes blocks up to its first wanted row, which is always computed. Sequences
// with KV of several sets of weights, or with given routes, neither take nor give.
//
// The tail of a prompt is what stands before its last row in the block of that row. Where another
// running sequence has computed the tail of an equal prompt, its rows are copied to a block of the
// sequence's own. (Each would write the row after the tail at once, so a block that two share until
// one of them writes would be copied in the same step.)
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
  // After take(): adds a block with the tail of the prompt, if a running sequence has computed it,
  // a block can be had and the tail comes next. Between two steps: rows are copied as they stand.
  void copy_tail(Sequence* sequence);
  // Publishes the blocks that are full, and swaps one for a published block of the same content.
  // Call it when rows were computed; counts a prefill that is done. True where the tail of the
  // prompt is there to be copied from now on.
  bool give(Sequence* sequence);
  // Others no longer find the sequence's tail. Call it before the sequence loses its blocks, but
  // where set_serial follows.
  void withdraw(Sequence* sequence);
  // Of the blocks that take() would add: those that running sequences hold, so that they cost the
  // pool nothing.
  int32_t held_blocks(const Sequence& sequence) const;

  // While a step is planned: notes the block or tail that a planned sequence fills, and says
  // whether another one had better wait for it.
  void claim(const Sequence& sequence);
  bool claimed(const Sequence& sequence) const;
  void drop_claims() { claims_.clear(); }

  // A free block, or the one that has been idle for longest; empty when there is neither.
  KvBlock new_block();

  PrefixStats stats() const;
  // The cache is sound, and who is listed with a tail holds its rows. kInternal names the fault.
  Status audit() const;

 private:
  // Of rows first .. first + rows - 1; `parent` of the block that they begin.
  BlockKeyView key(const Sequence& sequence, int32_t first, int32_t rows, uint64_t parent) const;
  BlockKeyView block_key(const Sequence& sequence, int32_t block, uint64_t parent) const;
  BlockKeyView tail_key(const Sequence& sequence, uint64_t parent) const;
  int32_t tail_block(const Sequence& sequence) const;
  bool can_take(const Sequence& sequence) const;
  bool tail_is_next(const Sequence& sequence) const;
  void list_tail(Sequence* sequence);
  void withdraw_all();
  void count_prefill(Sequence* sequence);

  bool enabled_;
  BlockAllocator* allocator_;
  PrefixCache cache_;
  WeightSerial serial_ = 0;
  std::unordered_set<BlockKeyView, BlockKeyHash, BlockKeyEqual> claims_;
  // Running sequences that have computed the tail of their prompt.
  std::unordered_map<BlockKey, std::vector<Sequence*>, BlockKeyHash, BlockKeyEqual> tails_;
  PrefixStats stats_;
};

}  // namespace rlgen::engine
