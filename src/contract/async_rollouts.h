#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace rlgen {

// Whether rollouts of the backend that a section policy.generation names may be asked for one by
// one: true for rlgen and dynamo; for sglang what use_async_rollouts says, for vllm what
// vllm_cfg.async_engine says (absent is false); true for trtllm, where trtllm_cfg.async_engine has
// to be true, and for megatron, where mcore_generation_config.async_engine must not be there (both
// error type AssertionError); false for null and every other backend.
StatusOr<bool> should_use_async_rollouts(const nlohmann::json& generation_config);

}  // namespace rlgen
