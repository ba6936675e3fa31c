#include "contract/config/checkpoint_engine_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "contract/json_object.h"

namespace rlgen {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kTransports = {"nixl", "nccl_reshard", "vllm_s3_sparse",
                                                         "vllm_zmq_sparse"};

// The arguments of the nixl engine, all of them, with what is not set at its default.
Status read_nixl(JsonObject* scope, json* arguments) {
  std::string device = "cuda";
  std::string backend_name = "UCX";
  json backend_init_params;
  bool release_after_refit = false;
  bool shard_expert_weights = false;
  scope->take("device", &device);
  scope->take("backend_name", &backend_name);
  if (const json* params = scope->find("backend_init_params")) backend_init_params = *params;
  scope->take("release_after_refit", &release_after_refit);
  scope->take("shard_expert_weights", &shard_expert_weights);
  RLGEN_RETURN_IF_ERROR(scope->finish());
  *arguments = {{"device", device},
                {"backend_name", backend_name},
                {"backend_init_params", backend_init_params},
                {"release_after_refit", release_after_refit},
                {"shard_expert_weights", shard_expert_weights}};
  return absl::OkStatus();
}

Status read_scope(const json& scope, const std::string& path, CheckpointEngineConfig* config) {
  constexpr char kRatio[] = "update_weights_bucket_memory_ratio";
  JsonObject object(scope, path);
  object.take(kRatio, &config->update_weights_bucket_memory_ratio);
  json arguments = scope;
  if (config->backend == "nixl") {
    RLGEN_RETURN_IF_ERROR(read_nixl(&object, &arguments));
  }
  RLGEN_RETURN_IF_ERROR(object.status());
  arguments.erase(kRatio);
  const double ratio = config->update_weights_bucket_memory_ratio;
  if (!(ratio > 0.0 && ratio < 1.0)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is {}; it must lie between 0 and 1", object.name_of(kRatio), ratio));
  }
  config->engine_kwargs = {{config->backend, arguments}};
  return absl::OkStatus();
}

Status unknown_transport(std::string_view path, std::string_view transport) {
  return absl::InvalidArgumentError(
      fmt::format("{}.refit_transport is \"{}\"; use null, {}, or module:ClassName", path,
                  transport, fmt::join(kTransports, ", ")));
}

}  // namespace

StatusOr<std::optional<CheckpointEngineConfig>> checkpoint_engine_config(const json& generation,
                                                                         std::string_view path) {
  if (generation.contains("checkpoint_engine")) {
    return absl::InvalidArgumentError(
        fmt::format("{0}.checkpoint_engine is no longer read; set {0}.refit_transport and "
                    "{0}.refit_cfg instead",
                    path));
  }
  std::optional<std::string> transport;
  const auto named = generation.find("refit_transport");
  if (named != generation.end()) {
    const JsonField field{fmt::format("{}.refit_transport", path), *named};
    RLGEN_RETURN_IF_ERROR(read_json(field, &transport));
  }
  if (!transport) return std::nullopt;
  const bool custom = transport->find(':') != std::string::npos;
  const bool known =
      std::find(kTransports.begin(), kTransports.end(), *transport) != kTransports.end();
  if (!custom && !known) return unknown_transport(path, *transport);
  if (!custom && *transport != "nixl") return std::nullopt;

  CheckpointEngineConfig config{.backend = *transport};
  const json none = json::object();
  const json& sections = generation.contains("refit_cfg") ? generation["refit_cfg"] : none;
  const std::string scope_path = fmt::format("{}.refit_cfg.{}", path, *transport);
  const bool there = sections.is_object() && sections.contains(*transport);
  if (custom && !there) {
    return absl::InvalidArgumentError(fmt::format("{}.refit_transport is \"{}\", but {} is missing",
                                                  path, *transport, scope_path));
  }
  RLGEN_RETURN_IF_ERROR(read_scope(there ? sections[*transport] : none, scope_path, &config));
  return std::optional(std::move(config));
}

}  // namespace rlgen
