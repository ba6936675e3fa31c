#include "contract/ended_updates.h"

#include <gtest/gtest.h>

namespace rlgen {
namespace {

TEST(EndedUpdates, EachEndHasItsAnswers) {
  EndedUpdates ended;
  ended.add("served", UpdateOutcome::kCommitted);
  ended.add("given up", UpdateOutcome::kAborted);
  ended.add("late", UpdateOutcome::kExpired);

  EXPECT_TRUE(ended.is_committed("served"));
  EXPECT_FALSE(ended.is_dropped("served"));
  EXPECT_EQ(ended.refusal("served"), absl::FailedPreconditionError("update served is committed"));

  for (const char* id : {"given up", "late"}) {
    EXPECT_FALSE(ended.is_committed(id));
    EXPECT_TRUE(ended.is_dropped(id));
  }
  EXPECT_EQ(ended.refusal("given up"),
            absl::FailedPreconditionError("update given up was aborted"));
  EXPECT_EQ(ended.refusal("late"), update_expired("late"));
  EXPECT_EQ(update_expired("late").code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(EndedUpdates, AnUpdateThatNeverWasIsNeitherCommittedNorDropped) {
  const EndedUpdates ended;
  EXPECT_FALSE(ended.contains("u"));
  EXPECT_FALSE(ended.is_committed("u"));
  EXPECT_FALSE(ended.is_dropped("u"));
  EXPECT_EQ(ended.refusal("u"),
            absl::FailedPreconditionError("update u is not open; begin comes first"));
}

}  // namespace
}  // namespace rlgen
