#include "contract/config/colocation_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace rlgen {
namespace {

int64_t wanted_shards(const OptionalResourcesConfig& resources) {
  return int64_t{resources.gpus_per_node.value_or(1)} * resources.num_nodes.value_or(1);
}

template <typename Resources>
Status read_counts(const JsonField& field, Resources* out) {
  Resources resources;
  JsonObject object(field.value, field.name);
  object.need("gpus_per_node", &resources.gpus_per_node);
  object.need("num_nodes", &resources.num_nodes);
  RLGEN_RETURN_IF_ERROR(object.finish());
  const std::array<std::pair<const char*, std::optional<int32_t>>, 2> counts = {
      {{"gpus_per_node", resources.gpus_per_node}, {"num_nodes", resources.num_nodes}}};
  for (const auto& [key, count] : counts) {
    if (!count || *count >= 1) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is {}; it must be at least 1", object.name_of(key), *count));
  }
  *out = resources;
  return absl::OkStatus();
}

}  // namespace

int32_t shard_count(const OptionalResourcesConfig& resources) {
  return static_cast<int32_t>(wanted_shards(resources));
}

Status read_json(const JsonField& field, ResourcesConfig* out) { return read_counts(field, out); }

Status read_json(const JsonField& field, OptionalResourcesConfig* out) {
  OptionalResourcesConfig resources;
  RLGEN_RETURN_IF_ERROR(read_counts(field, &resources));
  if (wanted_shards(resources) > kMostShards) {
    return absl::InvalidArgumentError(
        fmt::format("{} asks for {} shards (num_nodes x gpus_per_node); at most {} are started",
                    field.name, wanted_shards(resources), kMostShards));
  }
  *out = resources;
  return absl::OkStatus();
}

Status read_json(const JsonField& field, ColocationConfig* out) {
  ColocationConfig config;
  JsonObject object(field.value, field.name);
  object.need("enabled", &config.enabled);
  object.need("resources", &config.resources);
  RLGEN_RETURN_IF_ERROR(object.finish());
  *out = config;
  return absl::OkStatus();
}

}  // namespace rlgen
