#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/events.h"
#include "contract/routes/given_routes.h"
#include "contract/sampling_params.h"

namespace rlgen {

// Tokens [begin, end) of the output were made by one version of the weights.
struct VersionSpan {
  int32_t begin = 0;
  int32_t end = 0;
  WeightVersion version = 0;
  WeightVersion oldest_kv = 0;

  bool operator==(const VersionSpan&) const = default;
};

// One finished sample with everything a trainer needs of it.
struct Rollout {
  std::string id;  // the prompt's name
  int32_t sample = 0;
  std::vector<int32_t> prompt_token_ids;
  std::vector<TokenRecord> tokens;
  std::vector<TokenRecord> prompt;  // with prompt_logprobs
  // Where the shard records routes: from sampling.routed_experts_prompt_start on, one row less than
  // there are tokens, fewer where an abort came before they were computed.
  RouteSpan routes;
  GivenRoutes given_routes;  // that it was made with; null: none
  std::string text;
  Finish finish;
  SamplingParams sampling;  // all parameters in force, seed included
  std::string numerics;
  std::optional<int32_t> shard;  // which of its Generation served it; nothing where no token fits

  // Ended by a length limit. A prompt without earlier output that leaves no room for one token
  // counts as not truncated; `finish.context_full` tells.
  bool truncated() const {
    const bool any_output = !tokens.empty() || sampling.output_prefix_len > 0;
    return finish.reason == FinishReason::kLength && any_output;
  }
  std::vector<VersionSpan> version_spans() const;
};

}  // namespace rlgen
