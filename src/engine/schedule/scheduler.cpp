#include "engine/schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace rlgen::engine {

Scheduler::Scheduler(const ScheduleLimits& limits, BlockAllocator* allocator)
    : limits_(limits), allocator_(allocator), sharing_(limits.prefix_caching, allocator) {}

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
  const int32_t missing = blocks_missing(sequence, positions) - sharing_.held_blocks(sequence);
  return missing <= allocator_->free() + allocator_->idle() - blocks_promised();
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
    sharing_.take(next->second.get());
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

bool Scheduler::add_block(Sequence* sequence) {
  KvBlock block = allocator_->allocate();
  if (!block && sharing_.evict()) block = allocator_->allocate();
  if (!block) return false;
  sequence->block_table.push_back(block.id());
  sequence->blocks.push_back(std::move(block));
  return true;
}

bool Scheduler::take_blocks(Sequence* sequence, int32_t rows, Plan* plan) {
  while (blocks_missing(*sequence, int64_t(sequence->computed) + rows) > 0) {
    if (add_block(sequence)) continue;
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
  if (rows == 0 || !take_blocks(sequence, rows, plan)) return;
  plan->push_back({sequence, rows, wanted});
  const int32_t end = sequence->computed + rows;
  if (sequence->remaining() > 1 || end % allocator_->block_size() == 0) sharing_.claim(*sequence);
}

void Scheduler::fill(Plan* plan, bool may_wait) {
  std::vector<Sequence*> last_rows;
  std::vector<Sequence*> chunks;
  for (Sequence* sequence : running()) {
    (sequence->remaining() == 1 ? last_rows : chunks).push_back(sequence);
  }
  for (const auto* group : {&last_rows, &chunks}) {
    for (Sequence* sequence : *group) {
      if (!running_.contains(sequence->order())) continue;
      if (may_wait && sharing_.claimed(*sequence)) continue;
      add_rows(sequence, plan);
    }
  }
  sharing_.drop_claims();
}

// A plan is empty where sequences wait for one that was put back meanwhile.
Plan Scheduler::plan() {
  Plan plan;
  for (Sequence* sequence : running()) sharing_.take(sequence);
  fill(&plan, /*may_wait=*/true);
  if (plan.empty()) fill(&plan, /*may_wait=*/false);
  return plan;
}

void Scheduler::advance(Sequence* sequence, int32_t rows) {
  sequence->computed += rows;
  sharing_.give(sequence);
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

Status Scheduler::audit_sequence(const Sequence& sequence) const {
  const SequenceId id = sequence.request.id;
  const bool runs = running_.contains(sequence.order());
  if (runs == waiting_.contains(sequence.order())) {
    return absl::InternalError(fmt::format("sequence {} is in {} queues", id, runs ? 2 : 0));
  }
  if (!runs && !sequence.blocks.empty()) {
    return absl::InternalError(fmt::format("sequence {} waits and holds KV blocks", id));
  }
  if (sequence.blocks.size() != sequence.block_table.size() ||
      allocator_->blocks_for(sequence.computed) > int32_t(sequence.blocks.size())) {
    return absl::InternalError(fmt::format("sequence {} has {} blocks, a table of {} and {} rows",
                                           id, sequence.blocks.size(), sequence.block_table.size(),
                                           sequence.computed));
  }
  const auto full = size_t(sequence.computed / allocator_->block_size());
  for (size_t i = 0; i < sequence.blocks.size(); ++i) {
    const KvBlock& block = sequence.blocks[i];
    const bool own = block.shares() == 1 && !allocator_->is_cached(block.id());
    if (block.id() != sequence.block_table[i] || (i >= full && !own)) {
      return absl::InternalError(
          fmt::format("sequence {} lists block {} as {}, shared by {}, {} full blocks", id,
                      block.id(), sequence.block_table[i], block.shares(), full));
    }
  }
  return absl::OkStatus();
}

Status Scheduler::audit() const {
  RLGEN_RETURN_IF_ERROR(allocator_->audit());
  RLGEN_RETURN_IF_ERROR(sharing_.audit());
  std::vector<int32_t> shares(size_t(allocator_->total()), 0);
  for (const auto& [id, sequence] : by_id_) {
    RLGEN_RETURN_IF_ERROR(audit_sequence(*sequence));
    for (const int32_t block : sequence->block_table) ++shares[size_t(block)];
  }
  int32_t held = 0;
  for (int32_t block = 0; block < allocator_->total(); ++block) {
    held += shares[size_t(block)] > 0 ? 1 : 0;
    if (shares[size_t(block)] == allocator_->shares(block)) continue;
    return absl::InternalError(fmt::format("KV block {} has {} shares and {} sequences list it",
                                           block, allocator_->shares(block),
                                           shares[size_t(block)]));
  }
  if (held + allocator_->free() + allocator_->idle() != allocator_->total()) {
    return absl::InternalError(fmt::format("{} KV blocks are held, {} idle and {} free of {}", held,
                                           allocator_->idle(), allocator_->free(),
                                           allocator_->total()));
  }
  return absl::OkStatus();
}

}  // namespace rlgen::engine
