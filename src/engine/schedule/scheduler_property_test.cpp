#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "engine/schedule/scheduler.h"

namespace rlgen::engine {
namespace {

struct World {
  World(int blocks, const ScheduleLimits& limits)
      : allocator(make_allocator(blocks)), limits(limits), scheduler(limits, &allocator) {}

  static BlockAllocator make_allocator(int blocks) {
    kernels::KvLayout layout;
    layout.layers = 1;
    layout.kv_heads = 1;
    layout.head_dim = 1;
    layout.value_dim = 1;
    return *BlockAllocator::create(*Region::create(int64_t(layout.block_stride()) * blocks),
                                   layout);
  }

  BlockAllocator allocator;
  ScheduleLimits limits;
  Scheduler scheduler;
  SequenceId next_id = 1;
  std::set<SequenceId> in_flight;
  bool admitting = true;
};

void add(World& world) {
  auto sequence = std::make_unique<Sequence>();
  const int32_t prompt = *rc::gen::inRange(1, 80);
  const int32_t limit = prompt + *rc::gen::inRange(1, 40);
  sequence->request.id = world.next_id;
  sequence->request.priority = *rc::gen::inRange(-1, 2);
  sequence->request.score_only = *rc::gen::inRange(0, 4) == 0;
  sequence->arrival = world.next_id++;
  sequence->tokens.assign(size_t(sequence->request.score_only ? limit : prompt), 0);
  sequence->prompt_len = prompt;
  sequence->next_prompt = *rc::gen::inRange(0, 3) == 0 ? 1 : prompt;
  sequence->next_score = prompt;
  sequence->token_limit = limit;
  if (!world.scheduler.check_fits(limit).ok()) return;
  world.in_flight.insert(sequence->request.id);
  world.scheduler.add(std::move(sequence));
}

void check_plan(const World& world, const Plan& plan) {
  int32_t rows = 0;
  int32_t wanted = 0;
  std::set<const Sequence*> seen;
  for (const PlannedRows& planned : plan) {
    rows += planned.rows;
    int32_t counted = 0;
    for (int32_t i = 0; i < planned.rows; ++i) {
      counted += planned.sequence->wants(planned.sequence->computed + i) ? 1 : 0;
    }
    RC_ASSERT(counted == planned.wanted);
    wanted += planned.wanted;
    RC_ASSERT(planned.rows > 0 && planned.rows <= planned.sequence->remaining());
    RC_ASSERT(seen.insert(planned.sequence).second);
    const int64_t end = planned.sequence->computed + planned.rows;
    RC_ASSERT(world.allocator.blocks_for(end) <= int32_t(planned.sequence->blocks.size()));
  }
  RC_ASSERT(rows <= world.limits.max_num_batched_tokens);
  RC_ASSERT(wanted <= world.limits.max_wanted_rows);
}

void make_progress(World& world, const PlannedRows& planned) {
  Sequence& sequence = *planned.sequence;
  for (int32_t row = sequence.computed; row < sequence.computed + planned.rows; ++row) {
    if (!sequence.wants(row)) continue;
    if (row + 1 < sequence.prompt_len) sequence.next_prompt = row + 2;
    if (sequence.request.score_only && row + 1 >= sequence.prompt_len)
      sequence.next_score = row + 2;
  }
  sequence.computed += planned.rows;
  if (sequence.remaining() > 0) return;
  if (!sequence.request.score_only) sequence.tokens.push_back(0);
  if (sequence.request.score_only || int32_t(sequence.tokens.size()) == sequence.token_limit) {
    RC_ASSERT(sequence.next_prompt == sequence.prompt_len);
    world.in_flight.erase(sequence.request.id);
    world.scheduler.remove(sequence.request.id);
  }
}

void step(World& world) {
  world.scheduler.admit(world.admitting ? Admission::kAll : Admission::kStarted);
  RC_ASSERT(world.scheduler.num_running() <= world.limits.max_num_seqs);
  const Plan plan = world.scheduler.plan();
  RC_ASSERT(!plan.empty() || world.scheduler.num_running() == 0);
  RC_ASSERT(!plan.empty() || !world.admitting || world.in_flight.empty());
  check_plan(world, plan);
  for (const PlannedRows& planned : plan) make_progress(world, planned);
}

void cancel(World& world) {
  if (world.in_flight.empty()) return;
  auto chosen = world.in_flight.begin();
  std::advance(chosen, *rc::gen::inRange<size_t>(0, world.in_flight.size()));
  RC_ASSERT(world.scheduler.remove(*chosen) != nullptr);
  world.in_flight.erase(chosen);
}

void mark_mixed(World& world) {
  for (Sequence* sequence : world.scheduler.running()) {
    if (sequence->computed > 0 && *rc::gen::inRange(0, 2) == 0) sequence->mixed_kv = true;
  }
}

void random_operation(World& world) {
  switch (*rc::gen::inRange(0, 12)) {
    case 0:
    case 1:
    case 2:
      return add(world);
    case 3:
      return cancel(world);
    case 4:
      return *rc::gen::inRange(0, 4) == 0 ? world.scheduler.retract_all() : step(world);
    case 5:
      return mark_mixed(world);
    case 6:
      world.admitting = !world.admitting;
      return;
    default:
      return step(world);
  }
}

RC_GTEST_PROP(SchedulerProperty, NoBlockLostNoneFreedTwiceNobodyStarved, ()) {
  const ScheduleLimits limits{.max_num_seqs = *rc::gen::inRange(1, 9),
                              .max_num_batched_tokens = *rc::gen::inRange(1, 40),
                              .max_wanted_rows = *rc::gen::inRange(1, 10)};
  World world(*rc::gen::inRange(1, 14), limits);
  constexpr int kOperations = 300;
  for (int i = 0; i < kOperations; ++i) {
    random_operation(world);
    const Status audit = world.scheduler.audit();
    if (!audit.ok()) RC_FAIL(message_of(audit));
  }
  world.admitting = true;
  // Each step computes at least one row that is lost only to an older sequence's blocks.
  for (int i = 0; i < 100'000 && !world.in_flight.empty(); ++i) step(world);
  RC_ASSERT(world.in_flight.empty());
  RC_ASSERT(world.allocator.free() == world.allocator.total());
  RC_ASSERT(world.scheduler.num_running() + world.scheduler.num_waiting() == 0);
}

}  // namespace
}  // namespace rlgen::engine
