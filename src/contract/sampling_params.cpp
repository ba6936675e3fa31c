#include "contract/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "contract/limits.h"

namespace rlgen {
namespace {

// The bounds of OpenAI's and vLLM's interfaces.
constexpr float kMaxPenalty = 2.0f;
constexpr float kLargest = std::numeric_limits<float>::max();

template <typename T>
Status bad(std::string_view field, const T& value, std::string_view rule) {
  return absl::InvalidArgumentError(fmt::format("{} is {}; it must be {}", field, value, rule));
}

Status check_whole(std::string_view field, int64_t value, const WholeRange& range) {
  return range.contains(value) ? absl::OkStatus() : bad(field, value, range.rule());
}

template <typename T>
Status check_whole(std::string_view field, const std::optional<T>& value, const WholeRange& range) {
  return value ? check_whole(field, *value, range) : absl::OkStatus();
}

// False for NaN too.
bool within(float value, float low, float high) { return value >= low && value <= high; }

Status validate_numbers(const SamplingParams& params) {
  const bool greedy = params.temperature == 0.0f;
  if (!greedy && !within(params.temperature, kSmallestTemperature, kLargest)) {
    return bad("temperature", params.temperature,
               fmt::format("0 (greedy) or a finite number from {} on", kSmallestTemperature));
  }
  RLGEN_RETURN_IF_ERROR(check_whole("top_k", params.top_k, kTopKRange));
  if (!(params.top_p > 0.0f) || !(params.top_p <= 1.0f)) {
    return bad("top_p", params.top_p, "above 0 and at most 1");
  }
  if (!within(params.min_p, 0.0f, 1.0f)) return bad("min_p", params.min_p, "from 0 to 1");
  if (!(params.repetition_penalty > 0.0f) || std::isinf(params.repetition_penalty)) {
    return bad("repetition_penalty", params.repetition_penalty, "a finite number above 0");
  }
  if (!within(params.presence_penalty, -kMaxPenalty, kMaxPenalty)) {
    return bad("presence_penalty", params.presence_penalty, "from -2 to 2");
  }
  if (!within(params.frequency_penalty, -kMaxPenalty, kMaxPenalty)) {
    return bad("frequency_penalty", params.frequency_penalty, "from -2 to 2");
  }
  return absl::OkStatus();
}

Status validate_counts(const SamplingParams& params) {
  RLGEN_RETURN_IF_ERROR(check_whole("max_tokens", params.max_tokens, kMaxTokensRange));
  RLGEN_RETURN_IF_ERROR(check_whole("min_tokens", params.min_tokens, kCountRange));
  if (params.max_tokens && params.min_tokens > *params.max_tokens) {
    return bad("min_tokens", params.min_tokens,
               fmt::format("at most max_tokens, which is {}", *params.max_tokens));
  }
  RLGEN_RETURN_IF_ERROR(check_whole("output_prefix_len", params.output_prefix_len, kCountRange));
  RLGEN_RETURN_IF_ERROR(check_whole("seed", params.seed, kSeedRange));
  RLGEN_RETURN_IF_ERROR(check_whole("n", params.n, kSamplesRange));
  RLGEN_RETURN_IF_ERROR(check_whole("logprobs", params.logprobs, kCountRange));
  RLGEN_RETURN_IF_ERROR(check_whole("prompt_logprobs", params.prompt_logprobs, kCountRange));
  return check_whole("routed_experts_prompt_start", params.routed_experts_prompt_start,
                     kCountRange);
}

Status validate_bias(const SamplingParams& params) {
  std::vector<int32_t> ids;
  for (const auto& [id, bias] : params.logit_bias) {
    if (!std::isfinite(bias)) return bad(fmt::format("logit_bias.{}", id), bias, "finite");
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) return bad("logit_bias", *twice, "a set of ids, each named once");
  return absl::OkStatus();
}

// Ids that no multi-token rule is needed for to ban.
bool bans_alone(const SamplingParams& params, int32_t id) {
  const std::vector<int32_t> single{id};
  return std::find(params.bad_words_ids.begin(), params.bad_words_ids.end(), single) !=
         params.bad_words_ids.end();
}

Status validate_sets(const SamplingParams& params) {
  if (params.allowed_token_ids) {
    const auto& allowed = *params.allowed_token_ids;
    if (allowed.empty()) {
      return absl::InvalidArgumentError("allowed_token_ids is empty; name at least one id or none");
    }
    const bool all_banned = std::all_of(allowed.begin(), allowed.end(),
                                        [&](int32_t id) { return bans_alone(params, id); });
    if (all_banned) {
      return absl::InvalidArgumentError(
          "bad_words_ids bans every id of allowed_token_ids; nothing could be drawn");
    }
  }
  for (const auto& word : params.bad_words_ids) {
    if (word.empty()) return absl::InvalidArgumentError("bad_words_ids holds an empty sequence");
  }
  for (const auto& word : params.bad_words) {
    if (word.empty()) return absl::InvalidArgumentError("bad_words holds an empty string");
  }
  for (const auto& stop : params.stop) {
    if (stop.empty()) return absl::InvalidArgumentError("stop holds an empty string");
  }
  return absl::OkStatus();
}

Status check_ids(std::string_view field, std::span<const int32_t> ids, int32_t vocab_size) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return bad(field, id, fmt::format("a token id from 0 to {}", vocab_size - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view logprobs_mode_name(LogprobsMode mode) {
  switch (mode) {
    case LogprobsMode::kRaw:
      return "raw";
    case LogprobsMode::kTempered:
      return "tempered";
    case LogprobsMode::kProcessed:
      return "processed";
  }
  return "unknown";
}

StatusOr<LogprobsMode> parse_logprobs_mode(std::string_view name) {
  if (name == "raw" || name == "raw_logprobs") return LogprobsMode::kRaw;
  if (name == "tempered") return LogprobsMode::kTempered;
  if (name == "processed" || name == "processed_logprobs") return LogprobsMode::kProcessed;
  return absl::InvalidArgumentError(
      fmt::format("logprobs_mode is \"{}\"; it must be raw, tempered or processed", name));
}

Status validate(const SamplingParams& params) {
  RLGEN_RETURN_IF_ERROR(validate_numbers(params));
  RLGEN_RETURN_IF_ERROR(validate_counts(params));
  RLGEN_RETURN_IF_ERROR(validate_bias(params));
  return validate_sets(params);
}

Status validate_output_prefix(const SamplingParams& params, size_t prompt_len) {
  if (static_cast<size_t>(params.output_prefix_len) <= prompt_len) return absl::OkStatus();
  return bad("output_prefix_len", params.output_prefix_len,
             fmt::format("at most {}, the tokens of the prompt", prompt_len));
}

Status validate_routes_start(const SamplingParams& params, size_t tokens, bool recorded) {
  const int32_t start = params.routed_experts_prompt_start;
  if (start > 0 && !recorded) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts_prompt_start is {}, but no routes are recorded: the engine was "
                    "started without enable_return_routed_experts",
                    start));
  }
  if (static_cast<size_t>(start) <= tokens) return absl::OkStatus();
  return bad("routed_experts_prompt_start", start,
             fmt::format("at most {}, the tokens that are given", tokens));
}

Status validate_token_ids(const SamplingParams& params, int32_t vocab_size) {
  for (const auto& [id, bias] : params.logit_bias) {
    RLGEN_RETURN_IF_ERROR(check_ids("logit_bias", std::span(&id, 1), vocab_size));
  }
  if (params.allowed_token_ids) {
    RLGEN_RETURN_IF_ERROR(check_ids("allowed_token_ids", *params.allowed_token_ids, vocab_size));
  }
  for (const auto& word : params.bad_words_ids) {
    RLGEN_RETURN_IF_ERROR(check_ids("bad_words_ids", word, vocab_size));
  }
  return check_ids("stop_token_ids", params.stop_token_ids, vocab_size);
}

}  // namespace rlgen
