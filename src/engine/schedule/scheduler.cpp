#include "engine/schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace rlgen::engine {

Scheduler::Scheduler(const ScheduleLimits& limits, BlockAllocator* allocator)
    : limits_(limits), allocator_(allocator) {}

Status Scheduler::check_fits(int64_t token_limit) const {
  const int64_t needed = allocator_->blocks_for(token_limit - 1);
  if (needed <= allocator_->total()) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "a sequence of up to {} tokens needs {} KV blocks of {} keys and the pool has {}; lower "
      "max_tokens or raise kv_cache_memory_bytes",
      token_limit, needed, allocator_->block_size(), allocator_->total()));
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  by_id_[sequence->request.id] = sequence.get();
  const Order order = sequence->order();
  waiting_.emplace(order, std::move(sequence));
}

int32_t Scheduler::blocks_missing(const Sequence& sequence, int64_t positions) const {
  return std::max(0, allocator_->blocks_for(positions) - int32_t(sequence.blocks.size()));
}

int32_t Scheduler::blocks_promised() const {
  int32_t promised = 0;
  for (const auto& [order, sequence] : running_) {
    promised += blocks_missing(*sequence, sequence->target());
  }
  return promised;
}

// Room for the next token too, so that a sequence is not put back one step after it came.
bool Scheduler::may_start(const Sequence& sequence) const {
  if (running_.empty()) return true;
  const auto positions = std::min<int64_t>(sequence.target() + 1, sequence.token_limit - 1);
  return blocks_missing(sequence, positions) <= allocator_->free() - blocks_promised();
}

void Scheduler::admit(Admission admission) {
  if (admission == Admission::kNone) return;
  auto next = waiting_.begin();
  while (next != waiting_.end() && num_running() < limits_.max_num_seqs) {
    if (admission == Admission::kStarted && !next->second->started) {
      ++next;
      continue;
    }
    if (!may_start(*next->second)) return;
    next->second->started = true;
    running_.insert(waiting_.extract(next++));
  }
}

int32_t Scheduler::rows_left(const Plan& plan) const {
  int32_t left = limits_.max_num_batched_tokens;
  for (const PlannedRows& planned : plan) left -= planned.rows;
  return left;
}

int32_t Scheduler::wanted_left(const Plan& plan) const {
  int32_t left = limits_.max_wanted_rows;
  for (const PlannedRows& planned : plan) left -= planned.wanted;
  return left;
}

Sequence* Scheduler::next_victim() const {
  const auto rank = [](const Sequence* sequence) {
    return std::tuple(sequence->mixed_kv ? 0 : 1, sequence->order());
  };
  Sequence* victim = nullptr;
  for (const auto& [order, sequence] : running_) {
    if (victim == nullptr || rank(victim) < rank(sequence.get())) victim = sequence.get();
  }
  return victim;
}

bool Scheduler::take_blocks(Sequence* sequence, int32_t rows, Plan* plan) {
  while (blocks_missing(*sequence, int64_t(sequence->computed) + rows) > 0) {
    if (KvBlock block = allocator_->allocate()) {
      sequence->block_table.push_back(block.id());
      sequence->blocks.push_back(std::move(block));
      continue;
    }
    Sequence* victim = next_victim();
    std::erase_if(*plan, [&](const PlannedRows& planned) { return planned.sequence == victim; });
    retract(victim);
    ++preemptions_;
    if (victim == sequence) return false;
  }
  return true;
}

void Scheduler::add_rows(Sequence* sequence, Plan* plan) {
  const int32_t most = std::min(sequence->remaining(), rows_left(*plan));
  int32_t wanted = 0;
  const int32_t rows = sequence->rows_within(most, wanted_left(*plan), &wanted);
  if (rows > 0 && take_blocks(sequence, rows, plan)) plan->push_back({sequence, rows, wanted});
}

Plan Scheduler::plan() {
  Plan plan;
  std::vector<Sequence*> last_rows;
  std::vector<Sequence*> chunks;
  for (Sequence* sequence : running()) {
    (sequence->remaining() == 1 ? last_rows : chunks).push_back(sequence);
  }
  for (const auto* group : {&last_rows, &chunks}) {
    for (Sequence* sequence : *group) {
      if (running_.contains(sequence->order())) add_rows(sequence, &plan);
    }
  }
  return plan;
}

void Scheduler::retract(Sequence* sequence) {
  sequence->drop_kv();
  waiting_.insert(running_.extract(sequence->order()));
}

void Scheduler::retract_all() {
  for (Sequence* sequence : running()) retract(sequence);
}

std::unique_ptr<Sequence> Scheduler::remove(SequenceId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  const Order order = found->second->order();
  by_id_.erase(found);
  auto node = running_.extract(order);
  if (node.empty()) node = waiting_.extract(order);
  return std::move(node.mapped());
}

Sequence* Scheduler::find(SequenceId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<Sequence*> Scheduler::running() const {
  std::vector<Sequence*> all;
  all.reserve(running_.size());
  for (const auto& [order, sequence] : running_) all.push_back(sequence.get());
  return all;
}

std::vector<Sequence*> Scheduler::waiting() const {
  std::vector<Sequence*> all;
  all.reserve(waiting_.size());
  for (const auto& [order, sequence] : waiting_) all.push_back(sequence.get());
  return all;
}

int32_t Scheduler::num_started() const {
  return num_running() + int32_t(std::count_if(waiting_.begin(), waiting_.end(),
                                               [](const auto& w) { return w.second->started; }));
}

Status Scheduler::audit() const {
  RLGEN_RETURN_IF_ERROR(allocator_->audit());
  int32_t held = 0;
  for (const auto& [id, sequence] : by_id_) {
    const bool runs = running_.contains(sequence->order());
    if (runs == waiting_.contains(sequence->order())) {
      return absl::InternalError(fmt::format("sequence {} is in {} queues", id, runs ? 2 : 0));
    }
    if (!runs && !sequence->blocks.empty()) {
      return absl::InternalError(fmt::format("sequence {} waits and holds KV blocks", id));
    }
    if (sequence->blocks.size() != sequence->block_table.size() ||
        allocator_->blocks_for(sequence->computed) > int32_t(sequence->blocks.size())) {
      return absl::InternalError(fmt::format("sequence {} has {} blocks, a table of {} and {} rows",
                                             id, sequence->blocks.size(),
                                             sequence->block_table.size(), sequence->computed));
    }
    for (size_t i = 0; i < sequence->blocks.size(); ++i) {
      const int32_t block = sequence->blocks[i].id();
      if (block != sequence->block_table[i] || sequence->blocks[i].shares() != 1) {
        return absl::InternalError(fmt::format("sequence {} lists block {} as {}, shared by {}", id,
                                               block, sequence->block_table[i],
                                               sequence->blocks[i].shares()));
      }
      ++held;
    }
  }
  if (held + allocator_->free() != allocator_->total()) {
    return absl::InternalError(fmt::format("{} KV blocks are held and {} free of {}", held,
                                           allocator_->free(), allocator_->total()));
  }
  return absl::OkStatus();
}

}  // namespace rlgen::engine
