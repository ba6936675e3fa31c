#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/kv/test_blocks.h"
#include "engine/schedule/scheduler.h"

// A scheduler by hand, with a model that always makes the token 7. For tests.
namespace rlgen::engine::test {

using SequenceIds = std::vector<SequenceId>;

// Generates until it has `limit` tokens. Its id is its arrival.
inline std::unique_ptr<Sequence> make_sequence(SequenceId id, int32_t prompt, int32_t limit,
                                               int32_t priority = 0) {
  auto sequence = std::make_unique<Sequence>();
  sequence->request.id = id;
  sequence->request.priority = priority;
  sequence->arrival = id;
  sequence->tokens.assign(size_t(prompt), 7);
  sequence->prompt_len = prompt;
  sequence->next_prompt = prompt;
  sequence->token_limit = limit;
  return sequence;
}

// What the engine does with a plan. The sequences that ended.
inline SequenceIds run(Scheduler& scheduler, const Plan& plan) {
  SequenceIds finished;
  for (const PlannedRows& planned : plan) {
    Sequence& sequence = *planned.sequence;
    scheduler.advance(&sequence, planned.rows);
    if (sequence.remaining() > 0) continue;
    if (!sequence.request.score_only) sequence.tokens.push_back(7);
    if (sequence.request.score_only || sequence.allowance() == 0) {
      finished.push_back(sequence.request.id);
    }
  }
  for (const SequenceId id : finished) scheduler.finish(id);
  return finished;
}

inline SequenceIds step(Scheduler& scheduler) {
  scheduler.admit(Admission::kAll);
  return run(scheduler, scheduler.plan());
}

inline SequenceIds ids(const std::vector<Sequence*>& sequences) {
  SequenceIds all;
  for (const Sequence* sequence : sequences) all.push_back(sequence->request.id);
  return all;
}

inline int32_t rows_of(const Plan& plan) {
  return std::accumulate(plan.begin(), plan.end(), 0,
                         [](int32_t sum, const PlannedRows& p) { return sum + p.rows; });
}

// Sequences end after one token of many, so that others are expected to do so too. SequenceIds from
// 1000000.
inline void teach_short_answers(Scheduler& scheduler) {
  for (SequenceId id = 1'000'000; id < 1'000'100; ++id) {
    scheduler.add(make_sequence(id, 1, 16));
    scheduler.admit(Admission::kAll);
    for (const PlannedRows& planned : scheduler.plan()) {
      scheduler.advance(planned.sequence, planned.rows);
      planned.sequence->tokens.push_back(7);
    }
    scheduler.finish(id);
  }
}

}  // namespace rlgen::engine::test
