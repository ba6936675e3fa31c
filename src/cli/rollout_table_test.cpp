#include "cli/rollout_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rlgen::cli {
namespace {

using testing::HasSubstr;

TEST(RolloutTable, Shortens) {
  EXPECT_EQ(shorten("abc", 8), "abc");
  EXPECT_EQ(shorten("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(shorten("abcdefghi", 8), "abcde...");
  EXPECT_EQ(shorten("a\nb\tc\x01", 20), "a\\nb\\tc\\x01");
  EXPECT_EQ(shorten("ééééééééé", 8), "ééééé...");
  EXPECT_EQ(shorten("", 8), "");
}

TEST(RolloutTable, RowsAreSortedAndAddedUp) {
  Rollout rollout;
  rollout.id = "10";
  rollout.tokens = {{.token = 1, .logprob = -0.5f}, {.token = 2, .logprob = -1.0f}};
  rollout.text = "hello";
  Rollout other = rollout;
  other.id = "9";
  other.sample = 1;
  Rollout failed;
  failed.id = "x";
  failed.finish = {.reason = FinishReason::kError, .error = absl::InternalError("broken")};
  const std::string table =
      rollout_table({table_row(failed), table_row(rollout), table_row(other)}, LogprobsMode::kRaw);
  EXPECT_LT(table.find("\n9 "), table.find("\n10 "));
  EXPECT_LT(table.find("\n10 "), table.find("\nx "));
  EXPECT_THAT(table, HasSubstr("-1.500   -0.750   -0.500  -1.000"));
  EXPECT_THAT(table, HasSubstr("broken"));
  EXPECT_THAT(table, HasSubstr("log-probabilities: raw"));
}

}  // namespace
}  // namespace rlgen::cli
