#include <gtest/gtest.h>

#include <map>

#include "engine/schedule/test_schedule.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// Steps of a prompt of 32 budgets up to its first token, beside so many sequences that make tokens.
int steps_of_long_prompt(int decodes) {
  constexpr int32_t kBudget = 512;
  constexpr int32_t kPrompt = 32 * kBudget;
  BlockAllocator allocator = make_allocator(4096);
  Scheduler scheduler({.max_num_batched_tokens = kBudget}, &allocator);
  for (SequenceId id = 1; id <= SequenceId(decodes); ++id) {
    scheduler.add(make_sequence(id, 10, 1000));
  }
  step(scheduler);
  scheduler.add(make_sequence(100, kPrompt, kPrompt + 10));
  for (int steps = 1;; ++steps) {
    scheduler.admit(Admission::kAll);
    const Plan plan = scheduler.plan();
    EXPECT_LE(rows_of(plan), kBudget);
    std::map<SequenceId, int32_t> rows;
    for (const PlannedRows& planned : plan) rows[planned.sequence->request.id] = planned.rows;
    for (SequenceId id = 1; id <= SequenceId(decodes); ++id) EXPECT_EQ(rows[id], 1) << steps;
    run(scheduler, plan);
    if (int32_t(scheduler.find(100)->tokens.size()) > kPrompt) return steps;
  }
}

TEST(Fairness, FB217_ALongPromptStopsNobodyAndIsHardlySlower) {
  const int alone = steps_of_long_prompt(0);
  EXPECT_EQ(alone, 32);
  EXPECT_LE(steps_of_long_prompt(8), 1.1 * alone);
}

struct Drained {
  SequenceIds finished;
  int64_t rows = 0;
  int most_put_back = 0;
  int first_end = 0;  // step
};

Drained drain(Scheduler& scheduler, int most_steps) {
  Drained result;
  for (int steps = 1; steps <= most_steps; ++steps) {
    scheduler.admit(Admission::kAll);
    const Plan plan = scheduler.plan();
    if (plan.empty()) return result;
    result.rows += rows_of(plan);
    for (const SequenceId id : run(scheduler, plan)) result.finished.push_back(id);
    if (result.first_end == 0 && !result.finished.empty()) result.first_end = steps;
    for (const auto& group : {scheduler.running(), scheduler.waiting()}) {
      for (const Sequence* sequence : group) {
        result.most_put_back = std::max(result.most_put_back, sequence->put_back);
      }
    }
    const Status audit = scheduler.audit();
    EXPECT_TRUE(audit.ok()) << audit;
  }
  ADD_FAILURE() << "not done after " << most_steps << " steps";
  return result;
}

// A pool of 1.1 times what one sequence needs: the second waits for the first.
TEST(Fairness, FB220_TwoThatFillThePoolDoNotThrash) {
  BlockAllocator allocator = make_allocator(11);
  Scheduler scheduler({}, &allocator);
  scheduler.add(make_sequence(1, 40, 161));
  scheduler.add(make_sequence(2, 40, 161));
  EXPECT_EQ(drain(scheduler, 1000).finished, (SequenceIds{1, 2}));
  EXPECT_EQ(scheduler.preemptions(), 0);
}

// Even where all that ended before were short, so that nobody is expected to grow.
TEST(Fairness, FB220_AWrongExpectationPutsBackTwiceAtMost) {
  for (const int sequences : {2, 3, 8, 20}) {
    BlockAllocator allocator = make_allocator(11);
    Scheduler scheduler({}, &allocator);
    teach_short_answers(scheduler);
    for (SequenceId id = 1; id <= SequenceId(sequences); ++id) {
      scheduler.add(make_sequence(id, 20, 161));
    }
    const Drained result = drain(scheduler, 10'000);
    EXPECT_EQ(result.finished.size(), size_t(sequences));
    EXPECT_EQ(result.finished.front(), 1u);
    EXPECT_GE(scheduler.preemptions(), 1);
    EXPECT_LE(result.most_put_back, 2);
  }
}

// Long prompts are admitted by their whole length, not by their first chunk: two and a half fit, so
// two run at a time, nothing is computed twice, and the first is done as soon as if it were alone.
TEST(Fairness, FB221_LongPromptsDoNotStarveEachOther) {
  constexpr int32_t kPrompt = 10'000;
  constexpr int32_t kOutput = 20;
  BlockAllocator allocator = make_allocator(kPrompt * 5 / 2 / 16);
  Scheduler scheduler({}, &allocator);
  SequenceIds all;
  for (SequenceId id = 1; id <= 100; ++id) {
    scheduler.add(make_sequence(id, kPrompt, kPrompt + kOutput));
    all.push_back(id);
  }
  const Drained result = drain(scheduler, 10'000);
  EXPECT_EQ(result.finished, all);
  EXPECT_EQ(result.rows, 100 * (kPrompt + kOutput - 1));
  EXPECT_EQ(scheduler.preemptions(), 0);
  EXPECT_LE(result.first_end, kPrompt / 512 + 1 + kOutput);
}

// Short sequences keep coming, at any priority above or below, and always take what is free.
TEST(Fairness, AStreamOfShortSequencesDoesNotStarveALongOne) {
  BlockAllocator allocator = make_allocator(24);
  Scheduler scheduler({.max_num_seqs = 16}, &allocator);
  SequenceId next = 1;
  SequenceId ended = 0;
  const auto churn = [&] {
    while (scheduler.num_waiting() < 8) scheduler.add(make_sequence(next++, 9, 30));
    for (const SequenceId id : step(scheduler)) ended += id < 10'000'000 ? 1 : 0;
  };
  for (int i = 0; i < 50; ++i) churn();
  auto huge = make_sequence(10'000'000, 300, 370);
  huge->arrival = next++;
  scheduler.add(std::move(huge));
  int steps = 0;
  while (scheduler.find(10'000'000) != nullptr && steps < 1000) {
    churn();
    ++steps;
  }
  // Those before it in the queue, those that run, then itself.
  EXPECT_LE(steps, 70 + 4 * 30);
  EXPECT_GT(ended, 20u);
}

// Whoever comes with a better priority goes first, but does not throw back for ever what runs.
// Short answers keep the expectations low, and every 60 steps come two that grow beyond them.
TEST(Fairness, AStreamOfBetterPriorityThrowsBackTwiceAtMost) {
  constexpr SequenceId kLong = 10'000'000;
  BlockAllocator allocator = make_allocator(12);
  Scheduler scheduler({.max_num_seqs = 16}, &allocator);
  scheduler.add(make_sequence(kLong, 16, 160, /*priority=*/5));
  SequenceId next = 1;
  int most = 0;
  int steps = 0;
  for (; scheduler.find(kLong) != nullptr && steps < 5000; ++steps) {
    if (steps % 60 == 20) {
      for (int i = 0; i < 2; ++i) scheduler.add(make_sequence(2 * next++, 10, 60));
    }
    scheduler.add(make_sequence(2 * next++ + 1, 1, 40));  // odd: ends with its first token
    scheduler.admit(Admission::kAll);
    SequenceIds over;
    for (const PlannedRows& planned : scheduler.plan()) {
      Sequence& sequence = *planned.sequence;
      scheduler.advance(&sequence, planned.rows);
      if (sequence.remaining() > 0) continue;
      sequence.tokens.push_back(7);
      const SequenceId id = sequence.request.id;
      if (id % 2 == 1 || sequence.allowance() == 0) over.push_back(id);
    }
    most = std::max(most, scheduler.find(kLong)->put_back);
    for (const SequenceId id : over) scheduler.finish(id);
    ASSERT_TRUE(scheduler.audit().ok());
  }
  EXPECT_LT(steps, 5000);
  EXPECT_EQ(most, Scheduler::kMostPutBack);
}

// The number of running sequences is what the pool can hold of what they make.
TEST(Fairness, RunningSequencesFollowTheUseOfThePool) {
  const auto most_running = [](int32_t made) {
    BlockAllocator allocator = make_allocator(400);
    Scheduler scheduler({.max_num_seqs = 10'000}, &allocator);
    int most = 0;
    SequenceId next = 1;
    for (int i = 0; i < 3000; ++i) {
      while (scheduler.num_waiting() < 40) scheduler.add(make_sequence(next++, 15, 500));
      scheduler.admit(Admission::kAll);
      const Plan plan = scheduler.plan();
      SequenceIds over;
      for (const PlannedRows& planned : plan) {
        scheduler.advance(planned.sequence, planned.rows);
        planned.sequence->tokens.push_back(7);
        if (int32_t(planned.sequence->tokens.size()) >= 15 + made) {
          over.push_back(planned.sequence->request.id);
        }
      }
      for (const SequenceId id : over) scheduler.finish(id);
      if (i > 1000) most = std::max(most, scheduler.num_running());
    }
    // Before the first have ended, half of the allowed tokens are expected of each.
    EXPECT_LE(scheduler.preemptions(), 16 + int64_t(next) / 20) << made;
    return most;
  };
  const int brief = most_running(20);
  const int whole = most_running(450);
  EXPECT_GE(brief, 100);
  EXPECT_GE(whole, 12);
  EXPECT_LE(whole, 40);
}

}  // namespace
}  // namespace rlgen::engine
