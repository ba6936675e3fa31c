#include "contract/refit/rank_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "contract/error_type.h"

namespace rlgen {
namespace {

Status check_group(const RankGroup& group, std::span<const int32_t> absent) {
  for (const auto& [name, count] :
       {std::pair<const char*, int32_t>("train_world_size", group.train_world_size),
        std::pair<const char*, int32_t>("shard_count", group.shard_count),
        std::pair<const char*, int32_t>("workers_per_shard", group.workers_per_shard)}) {
    if (count >= 1) continue;
    return absl::InvalidArgumentError(fmt::format("{} is {}; it must be at least 1", name, count));
  }
  for (const int32_t shard : absent) {
    if (shard >= 0 && shard < group.shard_count) continue;
    return absl::InvalidArgumentError(
        fmt::format("shard {} does not exist; there are 0 to {}", shard, group.shard_count - 1));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<RankLayout> lay_out_ranks(const RankGroup& group, std::span<const int32_t> absent) {
  RLGEN_RETURN_IF_ERROR(check_group(group, absent));
  RankLayout layout;
  int64_t next = group.train_world_size;
  for (int32_t shard = 0; shard < group.shard_count; ++shard) {
    if (std::find(absent.begin(), absent.end(), shard) != absent.end()) continue;
    layout.shards.push_back({shard, static_cast<int32_t>(next)});
    next += group.workers_per_shard;
    if (next > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          fmt::format("{} shards of {} workers make more ranks than there are", group.shard_count,
                      group.workers_per_shard));
    }
  }
  if (layout.shards.empty()) {
    return with_error_type(absl::UnavailableError(fmt::format(
                               "none of the {} shards is left to take part", group.shard_count)),
                           "NoSurvivingShards");
  }
  layout.world_size = static_cast<int32_t>(next);
  return layout;
}

Status check_world_size(const RankLayout& layout, int64_t world_size) {
  if (world_size == layout.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("world_size is {}; trainer and {} shards make {}",
                                                world_size, layout.shards.size(),
                                                layout.world_size));
}

}  // namespace rlgen
