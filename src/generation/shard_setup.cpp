#include "generation/shard_setup.h"

#include <algorithm>

#include "base/cpu.h"

namespace rlgen::generation {

std::vector<ShardSpec> shard_specs(const GenerationConfig& config) {
  ShardSpec spec = config.rlgen_cfg.shard;
  const int32_t shards = config.dp_size();
  if (spec.num_threads == 0 && shards > 1) {
    spec.num_threads = std::max<int32_t>(1, static_cast<int32_t>(usable_cpus()) / shards);
  }
  return std::vector<ShardSpec>(static_cast<size_t>(shards), spec);
}

}  // namespace rlgen::generation
