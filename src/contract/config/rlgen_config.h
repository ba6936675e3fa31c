#pragma once

#include <chrono>

#include "contract/json_object.h"
#include "contract/sampling_params.h"
#include "contract/shard.h"

namespace rlgen {

// The section policy.generation.rlgen_cfg: what every shard is started with, and what the trainer's
// own keys have no word for. Every key may be absent.
struct RlgenConfig {
  // Keys num_threads, isa, dtype, activation_dtype, kv_cache_dtype, kv_cache_memory_bytes,
  // kv_cache_memory_fraction, block_size, max_num_seqs, max_num_batched_tokens, max_model_len,
  // enable_prefix_caching, enable_return_routed_experts and routed_experts_layers, as ShardSpec has
  // them. `model` is set from model_name.
  ShardSpec shard;
  // Key logprobs_mode: "raw", "tempered" or "processed".
  LogprobsMode logprobs_mode = LogprobsMode::kProcessed;
  // Key stall_timeout_s: a shard with work that computes nothing for so long is taken for dead.
  std::chrono::milliseconds stall_timeout{300'000};
};

// kInvalidArgument names an unknown key (with a "did you mean"), a wrong type, an unknown mode, a
// time out of range. What a shard's options may be is checked where it is started.
Status read_json(const JsonField& field, RlgenConfig* out);

// The least and the most that stall_timeout_s may be: a millisecond and a year.
inline constexpr double kShortestStall = 0.001;
inline constexpr double kLongestStall = 31'536'000.0;

// `error` of starting a shard in the words of the configuration: an error about a field of
// ShardSpec begins with the dotted key, "<path>.rlgen_cfg.<field>" or "<path>.model_name"; others
// stay as they are.
Status in_config_words(const Status& error, std::string_view path = "policy.generation");

}  // namespace rlgen
