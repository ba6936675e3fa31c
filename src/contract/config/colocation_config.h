#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "contract/json_object.h"

namespace rlgen {

// Where something runs; both at least 1.
struct ResourcesConfig {
  int32_t gpus_per_node = 1;
  int32_t num_nodes = 1;

  bool operator==(const ResourcesConfig&) const = default;
};

// The same; what is not set counts as 1.
struct OptionalResourcesConfig {
  std::optional<int32_t> gpus_per_node;
  std::optional<int32_t> num_nodes;

  bool operator==(const OptionalResourcesConfig&) const = default;
};

struct ColocationConfig {
  bool enabled = false;  // true: engines and trainer share their machines, and stand down in turn
  OptionalResourcesConfig resources;

  bool operator==(const ColocationConfig&) const = default;
};

// More engines than anybody starts by intent.
inline constexpr int64_t kMostShards = 1024;

// num_nodes x gpus_per_node, from 1 to kMostShards: how many shards there are, one engine each,
// colocated or not.
int32_t shard_count(const OptionalResourcesConfig& resources);

// Both keys are needed; values at least 1. Errors: those of JsonObject::finish, kInvalidArgument
// naming the dotted key.
Status read_json(const JsonField& field, ResourcesConfig* out);
// Both keys are needed and may be null; with more than kMostShards shards kInvalidArgument.
Status read_json(const JsonField& field, OptionalResourcesConfig* out);
// Both keys are needed.
Status read_json(const JsonField& field, ColocationConfig* out);

}  // namespace rlgen
