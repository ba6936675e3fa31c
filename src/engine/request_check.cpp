#include "engine/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rlgen::engine {
namespace {

Status check_ids(std::string_view field, const std::vector<int32_t>& ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return absl::InvalidArgumentError(
          fmt::format("{}[{}] is {}; token ids go from 0 to {}", field, i, ids[i], vocab_size - 1));
    }
  }
  return absl::OkStatus();
}

Status check_context(const SequenceRequest& request, int32_t max_model_len) {
  const size_t prompt = request.prompt_token_ids.size();
  const size_t output = request.output_token_ids.size();
  const auto limit = size_t(max_model_len);
  // A new token needs a position of its own; earlier output, and a prompt whose log-probabilities
  // are wanted, may fill the context to the end.
  const SamplingParams& sampling = request.sampling;
  const bool needs_no_token = request.score_only || output > 0 || sampling.output_prefix_len > 0 ||
                              sampling.prompt_logprobs.has_value();
  if (prompt + output <= (needs_no_token ? limit : limit - 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "context_length_exceeded: prompt_token_ids has {} ids and output_token_ids {}, and "
      "max_model_len is {} with room for at least one token of output",
      prompt, output, max_model_len));
}

Status check_sampling(const SequenceRequest& request, int32_t vocab_size) {
  const SamplingParams& sampling = request.sampling;
  RLGEN_RETURN_IF_ERROR(annotate(validate(sampling), "sampling"));
  RLGEN_RETURN_IF_ERROR(annotate(validate_token_ids(sampling, vocab_size), "sampling"));
  RLGEN_RETURN_IF_ERROR(
      annotate(validate_output_prefix(sampling, request.prompt_token_ids.size()), "sampling"));
  if (!sampling.bad_words.empty() && sampling.bad_words_ids.empty()) {
    return absl::InvalidArgumentError(
        "sampling.bad_words is text; a shard takes sampling.bad_words_ids");
  }
  if (!request.score_only && !sampling.greedy() && !sampling.seed) {
    return absl::InvalidArgumentError("sampling.seed is not set; draw one before submitting");
  }
  return absl::OkStatus();
}

Status check_request(const SequenceRequest& request, const RequestLimits& limits) {
  if (request.prompt_token_ids.empty()) {
    return absl::InvalidArgumentError("prompt_token_ids is empty; a prompt has at least one id");
  }
  RLGEN_RETURN_IF_ERROR(check_ids("prompt_token_ids", request.prompt_token_ids, limits.vocab_size));
  RLGEN_RETURN_IF_ERROR(check_ids("output_token_ids", request.output_token_ids, limits.vocab_size));
  if (request.sample_index < 0) {
    return absl::InvalidArgumentError(
        fmt::format("sample_index is {}; it counts from 0", request.sample_index));
  }
  if (request.adapter_slot != -1) {
    return absl::UnimplementedError(fmt::format(
        "adapter_slot is {}; this engine serves no adapters, use -1", request.adapter_slot));
  }
  RLGEN_RETURN_IF_ERROR(check_sampling(request, limits.vocab_size));
  if (request.score_only && request.output_token_ids.empty() && !request.sampling.prompt_logprobs) {
    return absl::InvalidArgumentError("output_token_ids is empty; there is nothing to score");
  }
  return check_context(request, limits.max_model_len);
}

std::vector<int32_t> stop_ids_of(const SamplingParams& sampling, const RequestLimits& limits) {
  std::vector<int32_t> ids = sampling.stop_token_ids;
  if (!sampling.ignore_eos) {
    ids.insert(ids.end(), limits.eos_token_ids.begin(), limits.eos_token_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

int32_t token_limit_of(const Sequence& sequence, const RequestLimits& limits) {
  const auto given = int32_t(sequence.tokens.size());
  if (sequence.request.score_only) return given;
  if (!sequence.request.sampling.max_tokens) return limits.max_model_len;
  const int64_t wanted = int64_t(sequence.output_begin()) + *sequence.request.sampling.max_tokens;
  return std::max(given, int32_t(std::min<int64_t>(wanted, limits.max_model_len)));
}

}  // namespace

StatusOr<std::unique_ptr<Sequence>> make_sequence(SequenceRequest request,
                                                  const RequestLimits& limits) {
  RLGEN_RETURN_IF_ERROR(check_request(request, limits));
  auto sequence = std::make_unique<Sequence>();
  sequence->prompt_len = int32_t(request.prompt_token_ids.size());
  sequence->tokens = request.prompt_token_ids;
  sequence->tokens.insert(sequence->tokens.end(), request.output_token_ids.begin(),
                          request.output_token_ids.end());
  sequence->next_score = sequence->prompt_len;
  sequence->next_prompt = sequence->prompt_len;
  if (request.sampling.prompt_logprobs) {
    sequence->next_prompt = 1;
    sequence->prompt_sampling.logprobs_mode = LogprobsMode::kRaw;
    sequence->prompt_sampling.logprobs = *request.sampling.prompt_logprobs;
  }
  sequence->stop_ids = stop_ids_of(request.sampling, limits);
  sequence->request = std::move(request);
  sequence->token_limit = token_limit_of(*sequence, limits);
  return sequence;
}

Status check_routes(Sequence* sequence, const RouteLayers& layers, bool recorded) {
  const SequenceRequest& request = sequence->request;
  RLGEN_RETURN_IF_ERROR(annotate(
      validate_routes_start(request.sampling, sequence->tokens.size(), recorded), "sampling"));
  sequence->routes_given = request.sampling.routed_experts_prompt_start;
  if (!request.routed_experts) return absl::OkStatus();
  if (layers.expert_layers == 0) {
    return absl::InvalidArgumentError("routed_experts were given, but the model has no experts");
  }
  const int64_t tokens = sequence->token_limit;
  return check_given_routes(*request.routed_experts,
                            {.top_k = layers.top_k,
                             .experts = layers.experts,
                             .expert_layers = layers.expert_layers,
                             .layers = int32_t(layers.place.size()),
                             .least_rows = request.score_only ? tokens - 1 : 0,
                             .most_rows = tokens});
}

}  // namespace rlgen::engine
