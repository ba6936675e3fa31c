#pragma once

#include <vector>

#include "base/status.h"
#include "contract/config/generation_config.h"
#include "contract/shard.h"

namespace rlgen::generation {

// How to start the engines of `config`, dp_size() of them and all alike. Where rlgen_cfg leaves
// num_threads open and there are several, they share out the usable CPUs, at least one each.
std::vector<ShardSpec> shard_specs(const GenerationConfig& config);

}  // namespace rlgen::generation
