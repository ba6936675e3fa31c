#include "contract/config/rlgen_config.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "contract/spec_error.h"

namespace rlgen {
namespace {

void read_shard(JsonObject* object, ShardSpec* shard) {
  object->take("num_threads", &shard->num_threads);
  object->take("isa", &shard->isa);
  object->take("dtype", &shard->dtype);
  object->take("activation_dtype", &shard->activation_dtype);
  object->take("kv_cache_dtype", &shard->kv_cache_dtype);
  object->take("kv_cache_memory_bytes", &shard->kv_cache_memory_bytes);
  object->take("kv_cache_memory_fraction", &shard->kv_cache_memory_fraction);
  object->take("block_size", &shard->block_size);
  object->take("max_num_seqs", &shard->max_num_seqs);
  object->take("max_num_batched_tokens", &shard->max_num_batched_tokens);
  object->take("max_model_len", &shard->max_model_len);
  object->take("enable_prefix_caching", &shard->enable_prefix_caching);
  object->take("enable_return_routed_experts", &shard->enable_return_routed_experts);
  object->take("routed_experts_layers", &shard->routed_experts_layers);
}

}  // namespace

Status read_json(const JsonField& field, RlgenConfig* out) {
  RlgenConfig config;
  JsonObject object(field.value, field.name);
  read_shard(&object, &config.shard);
  std::string mode(logprobs_mode_name(config.logprobs_mode));
  object.take("logprobs_mode", &mode);
  double stall_timeout_s = std::chrono::duration<double>(config.stall_timeout).count();
  object.take("stall_timeout_s", &stall_timeout_s);
  RLGEN_RETURN_IF_ERROR(object.finish());

  const auto parsed = parse_logprobs_mode(mode);
  if (!parsed.ok()) return annotate(parsed.status(), object.name_of("logprobs_mode"));
  config.logprobs_mode = *parsed;
  if (stall_timeout_s < kShortestStall || stall_timeout_s > kLongestStall) {
    return absl::InvalidArgumentError(fmt::format("{} is {}; it must be from {} to {} seconds",
                                                  object.name_of("stall_timeout_s"),
                                                  stall_timeout_s, kShortestStall, kLongestStall));
  }
  config.stall_timeout = std::chrono::milliseconds(std::llround(stall_timeout_s * 1000.0));
  *out = std::move(config);
  return absl::OkStatus();
}

Status in_config_words(const Status& error, std::string_view path) {
  const std::string field = spec_field_of(error);
  if (field.empty()) return error;
  return annotate(error, field == "model" ? fmt::format("{}.model_name", path)
                                          : fmt::format("{}.rlgen_cfg.{}", path, field));
}

}  // namespace rlgen
