#include "engine/schedule/scheduler.h"

#include <gtest/gtest.h>

#include "engine/schedule/test_schedule.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

TEST(Scheduler, AdmitsByPriorityThenArrivalUpToTheLimit) {
  BlockAllocator allocator = make_allocator(64);
  Scheduler scheduler({.max_num_seqs = 2}, &allocator);
  scheduler.add(make_sequence(1, 4, 8, 5));
  scheduler.add(make_sequence(2, 4, 8, 0));
  scheduler.add(make_sequence(3, 4, 8, 5));
  scheduler.admit(Admission::kAll);
  EXPECT_EQ(ids(scheduler.running()), (SequenceIds{2, 1}));
  EXPECT_EQ(ids(scheduler.waiting()), (SequenceIds{3}));
}

TEST(Scheduler, MixesLastRowsFirstThenChunksWithinTheBudget) {
  BlockAllocator allocator = make_allocator(64);
  Scheduler scheduler({.max_num_batched_tokens = 10}, &allocator);
  scheduler.add(make_sequence(1, 3, 20));
  scheduler.admit(Admission::kAll);
  run(scheduler, scheduler.plan());
  scheduler.add(make_sequence(2, 25, 40));
  scheduler.admit(Admission::kAll);
  const Plan plan = scheduler.plan();
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].sequence->request.id, 1u);
  EXPECT_EQ(plan[0].rows, 1);
  EXPECT_EQ(plan[0].wanted, 1);
  EXPECT_EQ(plan[1].rows, 9);
  EXPECT_EQ(plan[1].wanted, 0);
}

TEST(Scheduler, WantedRowsAreCapped) {
  BlockAllocator allocator = make_allocator(64);
  Scheduler scheduler({.max_num_batched_tokens = 100, .max_wanted_rows = 4}, &allocator);
  auto scored = make_sequence(1, 10, 30);
  scored->tokens.assign(30, 7);
  scored->request.score_only = true;
  scored->next_score = 10;
  scheduler.add(std::move(scored));
  scheduler.admit(Admission::kAll);
  Plan plan = scheduler.plan();
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].rows, 13);  // rows 0..8 are not wanted, 9..12 are
  EXPECT_EQ(plan[0].wanted, 4);
  run(scheduler, plan);
  plan = scheduler.plan();
  EXPECT_EQ(plan[0].rows, 4);
}

TEST(Scheduler, RefusesWhatCanNeverFitWithTheNumbers) {
  BlockAllocator allocator = make_allocator(4);
  const Scheduler scheduler({}, &allocator);
  EXPECT_TRUE(scheduler.check_fits(64).ok());
  const Status status = scheduler.check_fits(65);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(message_of(status).find("needs 5 KV blocks of 16 keys and the pool has 4"),
            std::string::npos)
      << status;
}

// Room for what three are expected to make, not for what they will make.
TEST(Scheduler, PreemptsTheLowestPriorityYoungestAndKeepsItsTokens) {
  BlockAllocator allocator = make_allocator(12);
  Scheduler scheduler({}, &allocator);
  scheduler.add(make_sequence(1, 15, 111));
  scheduler.add(make_sequence(2, 15, 111));
  scheduler.add(make_sequence(3, 15, 111, 1));
  scheduler.admit(Admission::kAll);
  ASSERT_EQ(scheduler.num_running(), 3);
  while (scheduler.preemptions() == 0) run(scheduler, scheduler.plan());
  EXPECT_EQ(ids(scheduler.waiting()), (SequenceIds{3}));
  const Sequence* victim = scheduler.find(3);
  EXPECT_GT(victim->tokens.size(), 15u);
  EXPECT_EQ(victim->computed, 0);
  EXPECT_TRUE(scheduler.audit().ok());
}

TEST(Scheduler, SequencesWithMixedKvArePreemptedLast) {
  BlockAllocator allocator = make_allocator(8);
  Scheduler scheduler({}, &allocator);
  scheduler.add(make_sequence(1, 15, 111));
  scheduler.add(make_sequence(2, 15, 111));
  scheduler.admit(Admission::kAll);
  scheduler.find(2)->mixed_kv = true;
  while (scheduler.preemptions() == 0) run(scheduler, scheduler.plan());
  EXPECT_EQ(ids(scheduler.waiting()), (SequenceIds{1}));
}

// The first will end soon and give back what the second needs; but neither may be put back, so the
// second does not rely on it.
TEST(Scheduler, ThoseThatWerePutBackTwiceMustFitTogether) {
  for (const int32_t times : {0, 2}) {
    BlockAllocator allocator = make_allocator(12);
    Scheduler scheduler({}, &allocator);
    scheduler.add(make_sequence(1, 80, 97));
    scheduler.add(make_sequence(2, 10, 129));
    scheduler.find(1)->put_back = 2;
    scheduler.find(2)->put_back = times;
    scheduler.admit(Admission::kAll);
    EXPECT_EQ(scheduler.num_running(), times == 0 ? 2 : 1);
    SequenceIds finished;
    while (finished.size() < 2) {
      for (const SequenceId id : step(scheduler)) finished.push_back(id);
    }
    EXPECT_EQ(finished, (SequenceIds{1, 2}));
    EXPECT_EQ(scheduler.preemptions(), 0);
  }
}

TEST(Scheduler, AdmissionCanBeHeldToStartedSequences) {
  BlockAllocator allocator = make_allocator(64);
  Scheduler scheduler({}, &allocator);
  scheduler.add(make_sequence(1, 4, 8));
  scheduler.admit(Admission::kAll);
  scheduler.retract_all();
  scheduler.add(make_sequence(0, 4, 8));
  scheduler.admit(Admission::kNone);
  EXPECT_EQ(scheduler.num_running(), 0);
  scheduler.admit(Admission::kStarted);
  EXPECT_EQ(ids(scheduler.running()), (SequenceIds{1}));
  EXPECT_EQ(scheduler.num_started(), 1);
}

TEST(Scheduler, OneRowBudgetServesTheOldestFirst) {
  BlockAllocator allocator = make_allocator(64);
  Scheduler scheduler({.max_num_batched_tokens = 1}, &allocator);
  for (SequenceId id = 1; id <= 3; ++id) scheduler.add(make_sequence(id, 5, 8));
  SequenceIds finished;
  for (int i = 0; i < 100; ++i) {
    scheduler.admit(Admission::kAll);
    const Plan plan = scheduler.plan();
    EXPECT_LE(rows_of(plan), 1);
    for (const SequenceId id : run(scheduler, plan)) finished.push_back(id);
  }
  EXPECT_EQ(finished, (SequenceIds{1, 2, 3}));
}

TEST(Scheduler, RemoveFindsRunningAndWaitingAlike) {
  BlockAllocator allocator = make_allocator(64);
  Scheduler scheduler({.max_num_seqs = 1}, &allocator);
  scheduler.add(make_sequence(1, 20, 30));
  scheduler.add(make_sequence(2, 20, 30));
  scheduler.admit(Admission::kAll);
  scheduler.plan();
  EXPECT_EQ(scheduler.remove(3), nullptr);
  EXPECT_EQ(scheduler.remove(1)->blocks.size(), 2u);
  EXPECT_NE(scheduler.remove(2), nullptr);
  EXPECT_EQ(allocator.free(), 64);
  EXPECT_TRUE(scheduler.audit().ok());
}

}  // namespace
}  // namespace rlgen::engine
