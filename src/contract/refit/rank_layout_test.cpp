#include "contract/refit/rank_layout.h"

#include <gmock/gmock.h>

#include "contract/error_type.h"

namespace rlgen {
namespace {

using ::testing::HasSubstr;

constexpr RankGroup kFourOfTwo{.train_world_size = 4, .shard_count = 4, .workers_per_shard = 2};

TEST(RankLayout, T20_TrainersComeFirstAndShardsFollowInOrder) {
  EXPECT_EQ(*lay_out_ranks(kFourOfTwo), (RankLayout{12, {{0, 4}, {1, 6}, {2, 8}, {3, 10}}}));
}

TEST(RankLayout, T20_RanksCloseUpWhereAShardIsAbsentAndReopenWhenItIsBack) {
  const std::vector<int32_t> lost{1};
  EXPECT_EQ(*lay_out_ranks(kFourOfTwo, lost), (RankLayout{10, {{0, 4}, {2, 6}, {3, 8}}}));
  EXPECT_EQ(lay_out_ranks(kFourOfTwo, {})->world_size, 12);
}

TEST(RankLayout, T20_WhatCannotBeIsRefused) {
  const std::vector<int32_t> all{0, 1, 2, 3};
  EXPECT_EQ(error_type(lay_out_ranks(kFourOfTwo, all).status()), "NoSurvivingShards");
  const std::vector<int32_t> unknown{4};
  EXPECT_EQ(error_kind(lay_out_ranks(kFourOfTwo, unknown).status()), ErrorKind::kValueError);
  EXPECT_THAT(message_of(lay_out_ranks({.train_world_size = 0, .shard_count = 1}).status()),
              HasSubstr("train_world_size"));
  EXPECT_FALSE(
      lay_out_ranks(
          {.train_world_size = 1, .shard_count = 2'000'000'000, .workers_per_shard = 2'000'000'000})
          .ok());
}

TEST(RankLayout, T20_TheWorldHasTheSizeThatTheLayoutNeeds) {
  const RankLayout layout = *lay_out_ranks(kFourOfTwo);
  EXPECT_TRUE(check_world_size(layout, 12).ok());
  EXPECT_THAT(message_of(check_world_size(layout, 11)), HasSubstr("11"));
}

}  // namespace
}  // namespace rlgen
