#include "contract/rollout.h"

#include <gtest/gtest.h>

#include "contract/numerics.h"

namespace rlgen {
namespace {

TEST(Rollout, VersionSpansMergeEqualNeighbours) {
  Rollout rollout;
  for (const WeightVersion version : {4, 4, 5, 5, 5}) {
    rollout.tokens.push_back({.token = 1, .version = version, .oldest_kv = 4});
  }
  const std::vector<VersionSpan> expected{{0, 2, 4, 4}, {2, 5, 5, 4}};
  EXPECT_EQ(rollout.version_spans(), expected);
  EXPECT_TRUE(Rollout{}.version_spans().empty());
}

TEST(Rollout, FB035_TruncatedMeansALengthLimitWithTokens) {
  Rollout rollout;
  rollout.finish.reason = FinishReason::kLength;
  EXPECT_FALSE(rollout.truncated());
  rollout.tokens.push_back({});
  EXPECT_TRUE(rollout.truncated());
  rollout.finish.reason = FinishReason::kStop;
  EXPECT_FALSE(rollout.truncated());
  Rollout continued;
  continued.finish.reason = FinishReason::kLength;
  continued.sampling.output_prefix_len = 2;
  EXPECT_TRUE(continued.truncated());
}

TEST(NumericsId, SaysEveryPart) {
  const NumericsId id{.model_digest = "ab"};
  EXPECT_EQ(id.to_string(), "float32/r1/kv=float32/rope=default/ab");
}

TEST(FinishReason, Names) {
  EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kAbort), "abort");
  EXPECT_EQ(finish_reason_name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace rlgen
