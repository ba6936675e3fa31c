#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "engine/kv/test_blocks.h"
#include "engine/schedule/scheduler.h"

namespace rlgen::engine {
namespace {

// What stands in one slot of a block: the weights and everything that its key depends on.
using Cell = std::pair<WeightSerial, std::string>;

std::string beginning(const Sequence& sequence, int32_t row) {
  std::string text = sequence.request.cache_salt + ':';
  for (int32_t i = 0; i <= row; ++i) {
    text += std::to_string(sequence.tokens[size_t(i)]) + ',';
  }
  return text;
}

struct ScheduleWorld {
  ScheduleWorld(int blocks, const ScheduleLimits& limits)
      : allocator(test::make_allocator(blocks)), limits(limits), scheduler(limits, &allocator) {}

  BlockAllocator allocator;
  ScheduleLimits limits;
  Scheduler scheduler;
  SequenceId next_id = 1;
  std::set<SequenceId> in_flight;
  Admission admission = Admission::kAll;
  bool mixed = false;  // some sequence had KV of several sets of weights
  WeightSerial serial = 0;
  std::map<Cell, int32_t> numbers;  // what memory has for a cell
  int64_t prefilled = 0;            // rows of finished prefills
};

std::unique_ptr<Sequence> some_sequence() {
  auto sequence = std::make_unique<Sequence>();
  const int32_t prompt = *rc::gen::inRange(1, 80);
  const int32_t limit = prompt + *rc::gen::inRange(1, 40);
  sequence->request.priority = *rc::gen::inRange(-1, 2);
  sequence->request.score_only = *rc::gen::inRange(0, 4) == 0;
  sequence->request.cache_salt = *rc::gen::inRange(0, 8) == 0 ? "salt" : "";
  const int32_t common = *rc::gen::inRange(0, 80);
  const int32_t own = *rc::gen::inRange(1, 3);
  for (int32_t i = 0; i < (sequence->request.score_only ? limit : prompt); ++i) {
    sequence->tokens.push_back(i < common ? 0 : own);
  }
  sequence->prompt_len = prompt;
  sequence->next_prompt = *rc::gen::inRange(0, 3) == 0 ? 1 : prompt;
  sequence->next_score = prompt;
  sequence->token_limit = limit;
  // Only prompt records are wanted; the limit is one that was passed long ago.
  if (!sequence->request.score_only && prompt > 1 && *rc::gen::inRange(0, 10) == 0) {
    sequence->ending = Finish{};
    sequence->next_prompt = 1;
    sequence->token_limit = 1;
  }
  return sequence;
}

std::unique_ptr<Sequence> another_sample(const Sequence& of) {
  auto sequence = std::make_unique<Sequence>();
  sequence->request = of.request;
  sequence->tokens = of.tokens;
  sequence->prompt_len = of.prompt_len;
  sequence->next_prompt = of.next_prompt;
  sequence->next_score = of.next_score;
  sequence->token_limit = of.token_limit;
  sequence->ending = of.ending;
  return sequence;
}

void add(ScheduleWorld& world) {
  auto sequence = some_sequence();
  if (!world.scheduler.check_fits(sequence->most_rows()).ok()) {
    RC_ASSERT(world.allocator.blocks_for(sequence->most_rows()) > world.allocator.total());
    return;
  }
  for (int samples = *rc::gen::inRange(1, 4); samples > 0; --samples) {
    auto next = another_sample(*sequence);
    sequence->request.id = sequence->arrival = world.next_id++;
    world.in_flight.insert(sequence->request.id);
    world.scheduler.add(std::exchange(sequence, std::move(next)));
  }
}

// Who is in flight runs or waits, in order, and the counts are those of the lists.
void check_queues(const ScheduleWorld& world) {
  const auto running = world.scheduler.running();
  const auto waiting = world.scheduler.waiting();
  std::set<SequenceId> ids;
  int32_t started = 0;
  for (const auto* list : {&running, &waiting}) {
    RC_ASSERT(std::ranges::is_sorted(*list, {}, &Sequence::order));
    for (const Sequence* sequence : *list) {
      ids.insert(sequence->request.id);
      started += sequence->started ? 1 : 0;
      RC_ASSERT(world.mixed || sequence->put_back <= Scheduler::kMostPutBack);
    }
  }
  RC_ASSERT(ids == world.in_flight);
  RC_ASSERT(started == world.scheduler.num_started());
  RC_ASSERT(world.scheduler.num_running() == int32_t(running.size()));
  RC_ASSERT(world.scheduler.num_waiting() == int32_t(waiting.size()));
  RC_ASSERT(world.scheduler.num_running() <= world.limits.max_num_seqs);
}

// Nobody overtakes: who is admitted are the first of those that may be, and one at least where
// nothing runs.
void admit(ScheduleWorld& world) {
  std::vector<Sequence*> queue = world.scheduler.waiting();
  if (world.admission == Admission::kNone) queue.clear();
  if (world.admission == Admission::kStarted) {
    std::erase_if(queue, [](const Sequence* sequence) { return !sequence->started; });
  }
  const bool idle = world.scheduler.num_running() == 0;
  const int32_t before = world.scheduler.num_waiting();
  world.scheduler.admit(world.admission);
  const int32_t admitted = before - world.scheduler.num_waiting();
  RC_ASSERT(admitted > 0 || !idle || queue.empty());
  for (size_t i = 0; i < queue.size(); ++i) RC_ASSERT(queue[i]->running == (i < size_t(admitted)));
}

void check_plan(const ScheduleWorld& world, const Plan& plan) {
  int32_t rows = 0;
  int32_t wanted = 0;
  std::set<const Sequence*> seen;
  // Who lacks one row only comes before all chunks.
  RC_ASSERT(std::ranges::is_partitioned(
      plan, [](const PlannedRows& planned) { return planned.sequence->remaining() == 1; }));
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

int32_t number_of(ScheduleWorld& world, const Cell& cell) {
  const auto next = int32_t(world.numbers.size()) + 1;
  return world.numbers.try_emplace(cell, next).first->second;
}

// Where a row's key or value lies: blocks have one of each for a slot, keys first.
std::byte* slot_of(const ScheduleWorld& world, const Sequence& sequence, int32_t row, bool value) {
  const kernels::KvCacheView kv = world.allocator.view();
  const int32_t size = kv.layout.block_size;
  return kv.head(sequence.block_table[size_t(row / size)], 0, 0) +
         (value ? kv.layout.value_offset() : 0) + size_t(row % size) * sizeof(float);
}

// Every row that counts as computed has its own KV in its slot.
void check_cells(ScheduleWorld& world) {
  for (const Sequence* sequence : world.scheduler.running()) {
    if (sequence->mixed_kv) continue;
    for (int32_t row = 0; row < sequence->computed; ++row) {
      const int32_t wanted = number_of(world, {world.serial, beginning(*sequence, row)});
      for (const bool value : {false, true}) {
        int32_t found = 0;
        std::memcpy(&found, slot_of(world, *sequence, row, value), sizeof(found));
        RC_ASSERT(found == wanted);
      }
    }
  }
}

void write_cells(ScheduleWorld& world, const PlannedRows& planned) {
  const Sequence& sequence = *planned.sequence;
  for (int32_t row = sequence.computed; row < sequence.computed + planned.rows; ++row) {
    const WeightSerial serial = sequence.mixed_kv ? ~WeightSerial(0) : world.serial;
    const int32_t number = number_of(world, {serial, beginning(sequence, row)});
    for (const bool value : {false, true}) {
      std::memcpy(slot_of(world, sequence, row, value), &number, sizeof(number));
    }
  }
}

// The tail of its prompt comes next, and none of it is wanted.
bool begins_tail(const ScheduleWorld& world, const Sequence& sequence) {
  const int32_t last = sequence.prompt_len - 1;
  const int32_t first = last - last % world.allocator.block_size();
  return !sequence.mixed_kv && sequence.computed == first && first < last &&
         sequence.first_wanted() >= last;
}

// Nobody computes the tail of a prompt that somebody who runs has.
void check_tails(const ScheduleWorld& world, const Plan& plan) {
  if (!world.limits.prefix_caching) return;
  for (const PlannedRows& planned : plan) {
    const Sequence& sequence = *planned.sequence;
    if (!begins_tail(world, sequence)) continue;
    const auto prompt = std::span(sequence.tokens).first(size_t(sequence.prompt_len));
    for (const Sequence* other : world.scheduler.running()) {
      const bool has_it = !other->mixed_kv && other->prompt_len == sequence.prompt_len &&
                          other->computed >= other->prompt_len - 1 &&
                          other->request.cache_salt == sequence.request.cache_salt &&
                          std::ranges::equal(std::span(other->tokens).first(prompt.size()), prompt);
      RC_ASSERT(!has_it);
    }
  }
}

void make_progress(ScheduleWorld& world, const PlannedRows& planned) {
  Sequence& sequence = *planned.sequence;
  for (int32_t row = sequence.computed; row < sequence.computed + planned.rows; ++row) {
    if (!sequence.wants(row)) continue;
    if (row + 1 < sequence.prompt_len) sequence.next_prompt = row + 2;
    if (sequence.request.score_only && row + 1 >= sequence.prompt_len)
      sequence.next_score = row + 2;
  }
  const bool prefilling = !sequence.prefilled;
  world.scheduler.advance(&sequence, planned.rows);
  if (sequence.remaining() > 0) return;
  if (prefilling) world.prefilled += sequence.computed;
  if (sequence.makes_tokens()) sequence.tokens.push_back(0);
  if (sequence.allowance() == 0) {
    RC_ASSERT(sequence.next_prompt == sequence.prompt_len);
    world.in_flight.erase(sequence.request.id);
    world.scheduler.finish(sequence.request.id);
  }
}

void take_step(ScheduleWorld& world) {
  admit(world);
  const int64_t preemptions = world.scheduler.preemptions();
  const Plan plan = world.scheduler.plan();
  // Where blocks ran out there may have been none to copy to.
  if (world.scheduler.preemptions() == preemptions) check_tails(world, plan);
  RC_ASSERT(!plan.empty() || world.scheduler.num_running() == 0);
  RC_ASSERT(!plan.empty() || world.admission != Admission::kAll || world.in_flight.empty());
  check_plan(world, plan);
  for (const PlannedRows& planned : plan) write_cells(world, planned);
  check_cells(world);
  for (const PlannedRows& planned : plan) make_progress(world, planned);
  check_cells(world);
}

void cancel(ScheduleWorld& world) {
  if (world.in_flight.empty()) return;
  auto chosen = world.in_flight.begin();
  std::advance(chosen, *rc::gen::inRange<size_t>(0, world.in_flight.size()));
  RC_ASSERT(world.scheduler.remove(*chosen) != nullptr);
  world.in_flight.erase(chosen);
}

void mark_mixed(ScheduleWorld& world) {
  world.mixed = true;
  for (Sequence* sequence : world.scheduler.running()) {
    if (sequence->computed > 0 && *rc::gen::inRange(0, 2) == 0) sequence->mixed_kv = true;
  }
}

// An update of the weights, as the engine makes it.
void flip(ScheduleWorld& world) {
  const bool keep = *rc::gen::inRange(0, 2) == 0;
  world.mixed = world.mixed || keep;
  if (!keep) world.scheduler.retract_all();
  for (Sequence* sequence : world.scheduler.running()) {
    if (sequence->remaining() > 1) {
      sequence->drop_kv();
    } else {
      sequence->mixed_kv = sequence->computed > 0;
    }
  }
  world.scheduler.set_serial(++world.serial);
}

void random_operation(ScheduleWorld& world) {
  switch (*rc::gen::inRange(0, 13)) {
    case 12:
      return *rc::gen::inRange(0, 6) == 0 ? flip(world) : take_step(world);
    case 0:
    case 1:
    case 2:
      return add(world);
    case 3:
      return cancel(world);
    case 4:
      return *rc::gen::inRange(0, 4) == 0 ? world.scheduler.retract_all() : take_step(world);
    case 5:
      return *rc::gen::inRange(0, 8) == 0 ? mark_mixed(world) : take_step(world);
    case 6:
      world.admission = *rc::gen::element(Admission::kAll, Admission::kAll, Admission::kStarted,
                                          Admission::kNone);
      return;
    default:
      return take_step(world);
  }
}

RC_GTEST_PROP(SchedulerProperty, NoBlockLostNoneFreedTwiceNobodyStarved, ()) {
  const ScheduleLimits limits{.max_num_seqs = *rc::gen::inRange(1, 9),
                              .max_num_batched_tokens = *rc::gen::inRange(1, 40),
                              .max_wanted_rows = *rc::gen::inRange(1, 10),
                              .prefix_caching = *rc::gen::inRange(0, 4) != 0};
  ScheduleWorld world(*rc::gen::inRange(1, 14), limits);
  constexpr int kOperations = 200;
  for (int i = 0; i < kOperations; ++i) {
    random_operation(world);
    const Status audit = world.scheduler.audit();
    if (!audit.ok()) RC_FAIL(message_of(audit));
    check_queues(world);
  }
  world.admission = Admission::kAll;
  // Each step computes at least one row that is lost only to an older sequence's blocks.
  for (int i = 0; i < 100'000 && !world.in_flight.empty(); ++i) take_step(world);
  RC_ASSERT(world.in_flight.empty());
  RC_ASSERT(world.allocator.free() + world.allocator.idle() == world.allocator.total());
  const PrefixStats stats = world.scheduler.prefix_stats();
  RC_ASSERT(stats.hit_tokens + stats.miss_tokens == (limits.prefix_caching ? world.prefilled : 0));
  RC_ASSERT(world.scheduler.num_running() + world.scheduler.num_waiting() == 0);
}

}  // namespace
}  // namespace rlgen::engine
