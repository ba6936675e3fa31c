#include "engine/stop_rules.h"

#include <algorithm>

namespace rlgen::engine {
namespace {

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::optional<Finish> stop_at_token(const RequestLimits& limits, const Sequence& sequence,
                                    int32_t index) {
  const SamplingParams& sampling = sequence.request.sampling;
  const int32_t token = sequence.tokens[size_t(index)];
  const bool counts = index - sequence.output_begin() + 1 >= sampling.min_tokens;
  std::optional<std::string> watched;
  if (sequence.watcher) watched = sequence.watcher->on_token(token, counts);
  if (!counts) return std::nullopt;
  if (!sampling.ignore_eos && contains(limits.eos_token_ids, token)) {
    return Finish{.reason = FinishReason::kStop};
  }
  if (contains(sampling.stop_token_ids, token)) {
    return Finish{.reason = FinishReason::kStop, .stop_reason = token};
  }
  if (watched) return Finish{.reason = FinishReason::kStop, .stop_reason = *std::move(watched)};
  return std::nullopt;
}

std::optional<Finish> stop_at_length(const RequestLimits& limits, const Sequence& sequence) {
  const auto& max_tokens = sequence.request.sampling.max_tokens;
  if (max_tokens && sequence.output_len() >= *max_tokens) {
    return Finish{.reason = FinishReason::kLength};
  }
  if (int32_t(sequence.tokens.size()) >= limits.max_model_len) {
    return Finish{.reason = FinishReason::kLength, .context_full = true};
  }
  return std::nullopt;
}

std::optional<Finish> stop_before_start(const RequestLimits& limits, const Sequence& sequence) {
  if (sequence.request.score_only) {
    const bool nothing = sequence.request.output_token_ids.empty();
    return nothing ? std::optional(Finish{.reason = FinishReason::kStop}) : std::nullopt;
  }
  for (int32_t i = sequence.output_begin(); i < int32_t(sequence.tokens.size()); ++i) {
    if (auto finish = stop_at_token(limits, sequence, i)) return finish;
  }
  return stop_at_length(limits, sequence);
}

}  // namespace rlgen::engine
