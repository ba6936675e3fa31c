#include "contract/async_rollouts.h"

#include <nlohmann/json.hpp>
#include <string>

#include "contract/error_type.h"

namespace rlgen {
namespace {

using nlohmann::json;

// The value under `section`.`key`, null where there is none.
json value_at(const json& config, const char* section, const char* key) {
  const auto found = config.find(section);
  if (found == config.end() || !found->is_object() || !found->contains(key)) return nullptr;
  return (*found)[key];
}

// As Python judges a value.
bool is_truthy(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0.0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

}  // namespace

StatusOr<bool> should_use_async_rollouts(const json& config) {
  if (!config.is_object()) return false;
  const std::string backend =
      config.contains("backend") && config["backend"].is_string() ? config["backend"] : "";
  if (backend == "rlgen" || backend == "dynamo") return true;
  if (backend == "sglang") {
    return config.contains("use_async_rollouts") && is_truthy(config["use_async_rollouts"]);
  }
  if (backend == "vllm") return is_truthy(value_at(config, "vllm_cfg", "async_engine"));
  if (backend == "trtllm") {
    if (is_truthy(value_at(config, "trtllm_cfg", "async_engine"))) return true;
    return with_error_type(
        absl::InvalidArgumentError("TRT-LLM requires policy.generation.trtllm_cfg.async_engine="
                                   "true; its synchronous path is no longer supported"),
        "AssertionError");
  }
  if (backend == "megatron") {
    const auto section = config.find("mcore_generation_config");
    const bool there =
        section != config.end() && section->is_object() && section->contains("async_engine");
    if (!there) return true;
    return with_error_type(
        absl::InvalidArgumentError(
            "policy.generation.mcore_generation_config.async_engine was removed: Megatron always "
            "uses its async engine; drop the key"),
        "AssertionError");
  }
  return false;
}

}  // namespace rlgen
