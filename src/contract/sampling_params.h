#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace rlgen {

// Which distribution a log-probability refers to. z are the model's logits, T the temperature.
//   kRaw        softmax(z)
//   kTempered   softmax(z / T), nothing else
//   kProcessed  after every filter, renormalised over what survives: the distribution that the
//               token was drawn from
// With temperature 0 (greedy) T counts as 1 and top-k, top-p and min-p do not enter.
enum class LogprobsMode { kRaw, kTempered, kProcessed };

// "raw", "tempered", "processed".
std::string_view logprobs_mode_name(LogprobsMode mode);
// Accepts those names and vLLM's "raw_logprobs" and "processed_logprobs".
StatusOr<LogprobsMode> parse_logprobs_mode(std::string_view name);

// The least temperature that is not 0. Logits that differ by less than 1e8 then have quotients that
// a float32 can be, so every tempered log-probability is finite.
inline constexpr float kSmallestTemperature = 1e-30f;

// Everything that decides how one sequence is sampled. The defaults change nothing: temperature 1,
// no filter, no penalty. Filters apply in this order: allowed ids and bad words, min_tokens and
// logit bias, penalties, temperature, min-p, top-k, top-p.
struct SamplingParams {
  float temperature = 1.0f;         // 0 is greedy: the largest logit, the lowest id on a tie;
                                    // else at least kSmallestTemperature
  int32_t top_k = -1;               // -1 and 0 mean off
  float top_p = 1.0f;               // in (0, 1]; 1 means off
  float min_p = 0.0f;               // in [0, 1]; 0 means off
  float repetition_penalty = 1.0f;  // over prompt and output, > 0; 1 means off
  float presence_penalty = 0.0f;    // over output, in [-2, 2]
  float frequency_penalty = 0.0f;   // over output, in [-2, 2]

  std::vector<std::pair<int32_t, float>> logit_bias;      // (token id, value added), ids once each
  std::optional<std::vector<int32_t>> allowed_token_ids;  // when set, no other id is drawn
  std::vector<std::string> bad_words;                     // text; turned into ids before a shard
  std::vector<std::vector<int32_t>> bad_words_ids;        // the last id is banned after the others

  std::optional<int32_t> max_tokens;  // >= 1; unset means up to the context
  int32_t min_tokens = 0;             // no stop counts before that many tokens
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;  // text only; token ids always keep what was drawn
  bool ignore_eos = false;                  // the model's end-of-sequence ids do not stop
  bool skip_special_tokens = true;          // text only

  // That many trailing prompt ids are earlier output (prompt and partial output sent as one
  // prompt): for penalties, bad words, min_tokens, max_tokens and stop strings. At most the
  // prompt's length.
  int32_t output_prefix_len = 0;

  std::optional<int64_t> seed;  // >= 0; one is drawn and returned when unset
  int32_t n = 1;                // samples of one prompt

  LogprobsMode logprobs_mode = LogprobsMode::kProcessed;
  int32_t logprobs = 0;                    // how many best alternatives to return beside the token
  std::optional<int32_t> prompt_logprobs;  // when set: raw values over the prompt, that many best
  // Routes of earlier tokens are not returned; at most the tokens given. Needs a shard that records
  // routes where it is not 0.
  int32_t routed_experts_prompt_start = 0;

  bool operator==(const SamplingParams&) const = default;

  bool greedy() const { return temperature == 0.0f; }
  bool top_k_on() const { return top_k > 0; }
};

// Checks every field on its own. kInvalidArgument names the field and the value.
Status validate(const SamplingParams& params);

// kInvalidArgument, with both numbers, where output_prefix_len is more than `prompt_len`.
Status validate_output_prefix(const SamplingParams& params, size_t prompt_len);

// kInvalidArgument, with both numbers, where routed_experts_prompt_start is more than `tokens`, the
// tokens given, or routes are not `recorded`.
Status validate_routes_start(const SamplingParams& params, size_t tokens, bool recorded);

// Checks every token id named in `params` against ids 0 .. vocab_size - 1.
Status validate_token_ids(const SamplingParams& params, int32_t vocab_size);

}  // namespace rlgen
