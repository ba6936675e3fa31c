#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen {

// What a checkpoint-engine refit is set up with. Made from refit_transport and refit_cfg; nobody
// writes it.
struct CheckpointEngineConfig {
  std::string backend;  // "nixl" or "module:ClassName"
  // One bucket of a transfer as a share of all memory of the device, in (0, 1).
  double update_weights_bucket_memory_ratio = 0.05;
  // backend -> arguments of its constructor.
  nlohmann::json engine_kwargs = nlohmann::json::object();
};

// The engine that the section `generation` (dotted name `path`) asks for by refit_transport;
// nothing for null, "nccl_reshard" and the sparse transports. kInvalidArgument names: the old key
// checkpoint_engine; a transport that is not known, with those that are; "module:ClassName" without
// a section of its own in refit_cfg; a ratio outside (0, 1); a key of refit_cfg.nixl that is not
// known.
StatusOr<std::optional<CheckpointEngineConfig>> checkpoint_engine_config(
    const nlohmann::json& generation, std::string_view path);

}  // namespace rlgen
