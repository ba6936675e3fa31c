#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/kv/block.h"
#include "engine/schedule/growth.h"
#include "engine/schedule/prefix_sharing.h"
#include "engine/schedule/sequence.h"

namespace rlgen::engine {

struct ScheduleLimits {
  int32_t max_num_seqs = 64;             // running at once, at most; the KV in use decides
  int32_t max_num_batched_tokens = 512;  // rows of one step
  int32_t max_wanted_rows = 64;          // rows of one step whose logits are kept
  bool prefix_caching = false;           // sequences share full blocks of equal content
};

// Rows computed .. computed + rows - 1 of a sequence go into the next step; it has blocks for them.
struct PlannedRows {
  Sequence* sequence = nullptr;
  int32_t rows = 0;
  int32_t wanted = 0;
};
using Plan = std::vector<PlannedRows>;

// Which waiting sequences may be admitted: all, those that ran before (a wait for running ones to
// finish), or none.
enum class Admission { kAll, kStarted, kNone };

// Decides who runs, with which rows, on which blocks. Knows no model, no thread and no time. Costs
// nothing per waiting sequence.
//
// Sequences wait by (priority, arrival) and nobody overtakes the first that may be admitted. It is
// admitted when there are blocks for what it and the running ones are expected to need together.
// When blocks run out all the same, idle blocks of the prefix cache are evicted; then running
// sequences go back to the queue, tokens kept and KV dropped. First go those with KV of one set of
// weights, of these the ones that were put back less than kMostPutBack times, of these the lowest
// priority, then the youngest. Who was put back that often comes again only if all that it may ever
// need fits into the pool together with all that the others put back as often may need, so that
// it is not put back once more (but for sequences with kept KV, which go last). The sequence that
// comes last in that order can always have every block, so the scheduler never stalls.
class Scheduler {
 public:
  static constexpr int32_t kMostPutBack = 2;

  // `allocator` must outlive the scheduler.
  Scheduler(const ScheduleLimits& limits, BlockAllocator* allocator);

  // kResourceExhausted, with the numbers, for a sequence that may come to have more rows than the
  // whole pool has room for.
  Status check_fits(int64_t most_rows) const;

  // Serial of the weights that make KV from now on.
  void set_serial(WeightSerial serial) { sharing_.set_serial(serial); }

  // Empties the prefix cache. After retract_all.
  void forget_prefixes() { sharing_.forget(); }

  // Queues a sequence that passed check_fits; its id is not in flight.
  void add(std::unique_ptr<Sequence> sequence);

  // Starts waiting sequences, in order, while there is a place and room: blocks for all their rows,
  // and for what they and the running ones are expected to make. Alone, a sequence always has room.
  void admit(Admission admission);

  // Rows for one step: first one for each sequence that lacks only one, then chunks of the others,
  // each in order, within the limits. With prefix caching a sequence first takes what the cache
  // has and copies the tail of its prompt from a running one of the same prompt; while another one
  // of the plan fills its next block or tail, it waits for that. Empty only when nothing runs.
  Plan plan();

  // The planned rows of a sequence went through the model: counts them and publishes the blocks
  // that they filled. Who waited copies the tail of its prompt at once, for the sequence may end.
  void advance(Sequence* sequence, int32_t rows);

  // Puts a running sequence back into the queue without its KV.
  void retract(Sequence* sequence);
  void retract_all();

  // Takes a sequence out; null when there is none of that id. Its blocks die with it.
  std::unique_ptr<Sequence> remove(SequenceId id);
  // The same for one that came to its own end; what it made teaches how far others will grow.
  std::unique_ptr<Sequence> finish(SequenceId id);

  Sequence* find(SequenceId id) const;
  std::vector<Sequence*> running() const;
  std::vector<Sequence*> waiting() const;
  int32_t num_running() const { return int32_t(running_.size()); }
  int32_t num_waiting() const { return int32_t(fresh_.size() + put_back_.size()); }
  // Sequences that ran and are not finished, running or not.
  int32_t num_started() const { return int32_t(running_.size() + put_back_.size()); }
  int64_t preemptions() const { return preemptions_; }  // for want of blocks
  // Share of the tokens allowed to them that running sequences are expected to make.
  double expected_share() const { return growth_.share(); }
  PrefixStats prefix_stats() const { return sharing_.stats(); }

  // Blocks free, idle and held make up the pool, tables match handles, each share belongs to a
  // running sequence, rows to come fall into no shared or published block, the cache is sound.
  // kInternal names the fault.
  Status audit() const;

 private:
  using Order = std::pair<int32_t, uint64_t>;
  using Queue = std::map<Order, std::unique_ptr<Sequence>>;

  // A plan in the making, and what is left of the limits.
  struct Draft {
    Plan plan;
    int32_t rows = 0;
    int32_t wanted = 0;
  };

  Queue* next_queue(Admission admission);
  void start(Queue* queue);
  bool has_room(const Sequence& sequence);
  bool expects_room(const Sequence& sequence, int32_t held);
  BlockNeed need_of(const Sequence& sequence) const;
  int32_t blocks_to_end(const Sequence& sequence) const;
  int32_t blocks_missing(const Sequence& sequence, int64_t positions) const;
  int32_t blocks_left() const { return allocator_->free() + allocator_->idle(); }

  bool add_block(Sequence* sequence);
  bool take_blocks(Sequence* sequence, int32_t rows, Draft* draft);
  Sequence* next_victim() const;
  void put_back(Sequence* sequence, Draft* draft);
  void add_rows(Sequence* sequence, Draft* draft);
  void fill(Draft* draft, bool may_wait);
  Status audit_sequence(const Sequence& sequence) const;

  ScheduleLimits limits_;
  BlockAllocator* allocator_;
  PrefixSharing sharing_;
  GrowthEstimate growth_;
  Queue fresh_;     // never ran
  Queue put_back_;  // ran and wait again
  Queue running_;
  std::unordered_map<SequenceId, Sequence*> by_id_;
  int64_t preemptions_ = 0;

  // Reused from step to step.
  std::vector<Sequence*> last_rows_;
  std::vector<Sequence*> chunks_;
  std::vector<BlockNeed> needs_;
  std::vector<Sequence*> waiters_;  // for a block or tail that another one of the last plan fills
};

}  // namespace rlgen::engine
