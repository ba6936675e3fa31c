#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace rlgen {

// The generation side of a group that spans trainer and shards.
struct RankGroup {
  int32_t train_world_size = 0;   // ranks 0 .. train_world_size - 1 are the trainer's
  int32_t shard_count = 0;        // of the whole fleet
  int32_t workers_per_shard = 1;  // each shard as many
};

// A shard that takes part: its workers have the ranks first_rank .. first_rank +
// workers_per_shard - 1.
struct ShardRanks {
  int32_t shard = 0;
  int32_t first_rank = 0;

  bool operator==(const ShardRanks&) const = default;
};

struct RankLayout {
  int32_t world_size = 0;
  std::vector<ShardRanks> shards;  // by shard index

  bool operator==(const RankLayout&) const = default;
};

// Ranks of the shards that are not `absent`, behind the trainer's, without gaps. Trainers are never
// left out, so rank 0 is theirs. kInvalidArgument for counts below 1, a shard that does not exist
// and a world of more than 2^31 - 1; kUnavailable with error type NoSurvivingShards where all are
// absent.
StatusOr<RankLayout> lay_out_ranks(const RankGroup& group, std::span<const int32_t> absent = {});

// kInvalidArgument, with the numbers, unless `world_size` is that of the layout.
Status check_world_size(const RankLayout& layout, int64_t world_size);

}  // namespace rlgen
