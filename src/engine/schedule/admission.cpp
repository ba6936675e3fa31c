#include <algorithm>

#include "engine/schedule/scheduler.h"

namespace rlgen::engine {

// The queue whose first sequence is the next to start; null when nobody may.
Scheduler::Queue* Scheduler::next_queue(Admission admission) {
  const bool fresh = admission == Admission::kAll && !fresh_.empty();
  if (put_back_.empty()) return fresh ? &fresh_ : nullptr;
  return fresh && fresh_.begin()->first < put_back_.begin()->first ? &fresh_ : &put_back_;
}

void Scheduler::admit(Admission admission) {
  if (admission == Admission::kNone) return;
  while (num_running() < limits_.max_num_seqs) {
    Queue* queue = next_queue(admission);
    if (queue == nullptr || !has_room(*queue->begin()->second)) return;
    start(queue);
  }
}

void Scheduler::start(Queue* queue) {
  Sequence* sequence = queue->begin()->second.get();
  sequence->started = true;
  sequence->running = true;
  sharing_.take(sequence);
  running_.insert(queue->extract(queue->begin()));
}

// Blocks that it lacks if it goes on to its limit.
int32_t Scheduler::blocks_to_end(const Sequence& sequence) const {
  return blocks_missing(sequence, sequence.most_rows());
}

// `claims`: all that those may come to hold that were put back as often as may be. Nobody else can
// take it from them, so it must fit.
bool Scheduler::has_room(const Sequence& sequence) {
  if (running_.empty()) return true;
  const int32_t held = sharing_.held_blocks(sequence);
  int64_t most = blocks_to_end(sequence) - held;
  int64_t claims = allocator_->blocks_for(sequence.most_rows());
  for (const auto& [order, other] : running_) {
    most += blocks_to_end(*other);
    if (other->put_back >= kMostPutBack) claims += allocator_->blocks_for(other->most_rows());
  }
  if (most <= blocks_left()) return true;
  if (sequence.put_back >= kMostPutBack && claims > allocator_->total()) return false;
  return expects_room(sequence, held);
}

bool Scheduler::expects_room(const Sequence& sequence, int32_t held) {
  needs_.clear();
  for (const auto& [order, other] : running_) needs_.push_back(need_of(*other));
  needs_.push_back(need_of(sequence));
  needs_.back().due -= held;
  return peak_need(&needs_, allocator_->block_size()) <= blocks_left();
}

// One that was put back as often as may be keeps its claim to all that it may need.
BlockNeed Scheduler::need_of(const Sequence& sequence) const {
  const int32_t next = std::min(sequence.target() + 1, sequence.most_rows());
  const int32_t allowance = sequence.allowance();
  const bool whole = sequence.put_back >= kMostPutBack;
  // Whoever holds a block holds those before it, so shares sink along a sequence.
  const auto own = std::ranges::partition_point(
      sequence.blocks, [](const KvBlock& block) { return block.shares() > 1; });
  return {.due = blocks_missing(sequence, next),
          .growth = whole ? allowance : growth_.expected(allowance),
          .returned = int32_t(sequence.blocks.end() - own)};
}

}  // namespace rlgen::engine
