#include "engine/schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace rlgen::engine {

Scheduler::Scheduler(const ScheduleLimits& limits, BlockAllocator* allocator)
    : limits_(limits), allocator_(allocator), sharing_(limits.prefix_caching, allocator) {}

Status Scheduler::check_fits(int64_t most_rows) const {
  const int64_t needed = allocator_->blocks_for(most_rows);
  if (needed <= allocator_->total()) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "a sequence of up to {} tokens needs {} KV blocks of {} keys and the pool has {}; lower "
      "max_tokens or raise kv_cache_memory_bytes",
      most_rows + 1, needed, allocator_->block_size(), allocator_->total()));
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  by_id_[sequence->request.id] = sequence.get();
  const Order order = sequence->order();
  fresh_.emplace(order, std::move(sequence));
}

int32_t Scheduler::blocks_missing(const Sequence& sequence, int64_t positions) const {
  return std::max(0, allocator_->blocks_for(positions) - int32_t(sequence.blocks.size()));
}

Sequence* Scheduler::next_victim() const {
  const auto rank = [](const Sequence* sequence) {
    return std::tuple(!sequence->mixed_kv, sequence->put_back < kMostPutBack, sequence->order());
  };
  Sequence* victim = nullptr;
  for (const auto& [order, sequence] : running_) {
    if (victim == nullptr || rank(victim) < rank(sequence.get())) victim = sequence.get();
  }
  return victim;
}

void Scheduler::put_back(Sequence* sequence, Draft* draft) {
  std::erase_if(draft->plan, [&](const PlannedRows& planned) {
    if (planned.sequence != sequence) return false;
    draft->rows += planned.rows;
    draft->wanted += planned.wanted;
    return true;
  });
  ++sequence->put_back;
  ++preemptions_;
  growth_.fell_short();
  retract(sequence);
}

bool Scheduler::add_block(Sequence* sequence) {
  KvBlock block = sharing_.new_block();
  if (!block) return false;
  sequence->block_table.push_back(block.id());
  sequence->blocks.push_back(std::move(block));
  return true;
}

bool Scheduler::take_blocks(Sequence* sequence, int32_t rows, Draft* draft) {
  while (blocks_missing(*sequence, int64_t(sequence->computed) + rows) > 0) {
    if (add_block(sequence)) continue;
    Sequence* victim = next_victim();
    put_back(victim, draft);
    if (victim == sequence) return false;
  }
  return true;
}

void Scheduler::add_rows(Sequence* sequence, Draft* draft) {
  const int32_t most = std::min(sequence->remaining(), draft->rows);
  int32_t wanted = 0;
  const int32_t rows = sequence->rows_within(most, draft->wanted, &wanted);
  if (rows == 0 || !take_blocks(sequence, rows, draft)) return;
  draft->plan.push_back({sequence, rows, wanted});
  draft->rows -= rows;
  draft->wanted -= wanted;
  const int32_t end = sequence->computed + rows;
  if (sequence->remaining() > 1 || end % allocator_->block_size() == 0) sharing_.claim(*sequence);
}

void Scheduler::fill(Draft* draft, bool may_wait) {
  last_rows_.clear();
  chunks_.clear();
  for (const auto& [order, sequence] : running_) {
    (sequence->remaining() == 1 ? last_rows_ : chunks_).push_back(sequence.get());
  }
  for (const auto* group : {&last_rows_, &chunks_}) {
    for (Sequence* sequence : *group) {
      if (!sequence->running) continue;
      if (may_wait && sharing_.claimed(*sequence)) {
        waiters_.push_back(sequence);
      } else {
        add_rows(sequence, draft);
      }
    }
  }
  sharing_.drop_claims();
}

// A plan is empty where sequences wait for one that was put back meanwhile.
Plan Scheduler::plan() {
  Draft draft{{}, limits_.max_num_batched_tokens, limits_.max_wanted_rows};
  draft.plan.reserve(running_.size());
  waiters_.clear();
  for (const auto& [order, sequence] : running_) sharing_.take(sequence.get());
  for (const auto& [order, sequence] : running_) sharing_.copy_tail(sequence.get());
  fill(&draft, /*may_wait=*/true);
  if (draft.plan.empty()) {
    waiters_.clear();
    fill(&draft, /*may_wait=*/false);
  }
  return std::move(draft.plan);
}

void Scheduler::advance(Sequence* sequence, int32_t rows) {
  sequence->computed += rows;
  if (!sharing_.give(sequence)) return;
  for (Sequence* waiter : waiters_) {
    if (!waiter->running) continue;
    sharing_.take(waiter);
    sharing_.copy_tail(waiter);
  }
}

void Scheduler::retract(Sequence* sequence) {
  sharing_.withdraw(sequence);
  sequence->drop_kv();
  sequence->running = false;
  put_back_.insert(running_.extract(sequence->order()));
}

void Scheduler::retract_all() {
  for (Sequence* sequence : running()) retract(sequence);
}

std::unique_ptr<Sequence> Scheduler::remove(SequenceId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  const Order order = found->second->order();
  sharing_.withdraw(found->second);
  std::erase(waiters_, found->second);
  by_id_.erase(found);
  for (Queue* queue : {&running_, &put_back_, &fresh_}) {
    if (auto node = queue->extract(order)) return std::move(node.mapped());
  }
  return nullptr;
}

std::unique_ptr<Sequence> Scheduler::finish(SequenceId id) {
  auto sequence = remove(id);
  if (sequence && sequence->makes_tokens()) {
    growth_.ended(sequence->output_len(), sequence->output_len() + sequence->allowance());
  }
  return sequence;
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
  all.reserve(fresh_.size() + put_back_.size());
  for (const Queue* queue : {&fresh_, &put_back_}) {
    for (const auto& [order, sequence] : *queue) all.push_back(sequence.get());
  }
  std::ranges::sort(all, {}, &Sequence::order);
  return all;
}

Status Scheduler::audit_sequence(const Sequence& sequence) const {
  const SequenceId id = sequence.request.id;
  const bool runs = running_.contains(sequence.order());
  const bool again = put_back_.contains(sequence.order());
  const int queues = runs + again + fresh_.contains(sequence.order());
  if (queues != 1 || runs != sequence.running || (runs || again) != sequence.started) {
    return absl::InternalError(fmt::format("sequence {} is in {} queues, {} running, {} started",
                                           id, queues, sequence.running ? "and" : "not",
                                           sequence.started ? "and" : "not"));
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
