#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "contract/config/colocation_config.h"
#include "contract/config/disagg_config.h"
#include "contract/config/generation_sampling_params.h"
#include "contract/config/rlgen_config.h"

namespace rlgen {

// The section policy.generation of a trainer, as far as this backend reads it. Fields carry the
// names of their keys; those that begin with "_" in the file lack it here.
struct GenerationConfig {
  std::string backend = "rlgen";
  int32_t max_new_tokens = 1;  // of one sample, at least 1; cut to the room that the prompt leaves
  GenerationSamplingParams train;       // temperature, top_p, top_k
  GenerationSamplingParams validation;  // val_temperature, val_top_p, val_top_k
  std::string model_name;               // folder of the checkpoint
  // Not set: the tokenizer's end-of-sequence ids, unless ignore_eos.
  std::optional<std::vector<int32_t>> stop_token_ids;
  std::vector<std::string> stop_strings;  // of every sample, beside its own
  std::vector<std::string> bad_words;     // never made
  bool ignore_eos = false;
  ColocationConfig colocated;
  // Both or neither, low <= high; kept for the HTTP servers.
  std::optional<int32_t> port_range_low;
  std::optional<int32_t> port_range_high;
  std::optional<int32_t> pad_token_id;  // _pad_token_id
  DisaggConfig disaggregation;          // enabled is false: engines of both kinds in one
  RlgenConfig rlgen_cfg;
  // Sections and keys in the file that belong to other backends. They are not read.
  std::vector<std::string> not_read;

  // Engines to start.
  int32_t dp_size() const { return shard_count(colocated.resources); }
};

// Reads the section; `path` is its dotted name. Every key that may stand there is read, refused or
// another backend's. Errors name the dotted key and the value:
//   kInvalidArgument   another backend, a wrong type, a value out of range, a key that nobody knows
//                      (with a "did you mean"); missing keys (error type AssertionError)
//   kUnimplemented     disaggregation.enabled, the draft and MTP keys and _debug_payload_metrics
//                      when true, use_async_rollouts when false, refit_transport other than null
StatusOr<GenerationConfig> read_generation_config(const nlohmann::json& section,
                                                  std::string_view path = "policy.generation");

// What the tokenizer says of a model.
struct TokenizerFacts {
  std::optional<int32_t> pad_token_id;
  std::vector<int32_t> eos_token_ids;
};

// Fills in what the tokenizer decides, and says once what of the file is not read. Its pad id
// replaces _pad_token_id, with a warning where another one was given; a tokenizer without one
// leaves the key as it is. Stop token ids that are not set become the tokenizer's end-of-sequence
// ids, or none with ignore_eos.
void finalize_generation_config(const TokenizerFacts& tokenizer, const LogSink& log,
                                GenerationConfig* config);

// How many tokens may follow a prompt of `input_length`: at most `max_new_tokens` and the room up
// to `max_model_len`; 0 where there is none.
int32_t clamp_max_new_tokens(int32_t max_new_tokens, int64_t input_length, int64_t max_model_len);

// The stop strings of one sample: the configured ones, then those of its own that are not among
// them, each once.
std::vector<std::string> merge_stop_strings(const std::vector<std::string>& configured,
                                            const std::vector<std::string>& own);

}  // namespace rlgen
