#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "contract/routes/given_routes.h"
#include "contract/sampling_params.h"

namespace rlgen {

// One sequence for a shard: a prompt, what was made of it so far, and how to go on. The samples of
// one prompt are requests of their own, each addressable alone; a shard sees that their ids are
// equal and computes them once.
struct SequenceRequest {
  SequenceId id = 0;
  int32_t sample_index = 0;  // 0 .. n-1; part of the random key

  std::vector<int32_t> prompt_token_ids;
  // Earlier output of this sequence, delivered before (by this or another shard). Generation
  // continues after it with the same draws; max_tokens and min_tokens count it. What
  // sampling.output_prefix_len names stands before it, as part of the prompt.
  std::vector<int32_t> output_token_ids;

  // True: no token is made. The events carry the log-probabilities of output_token_ids under
  // `sampling`, by the same function that generation uses. There may be none where prompt
  // log-probabilities are wanted.
  bool score_only = false;

  SamplingParams sampling;  // seed set, bad_words already turned into bad_words_ids

  // Null: the router decides. A request with given routes neither reads nor fills the prefix cache.
  GivenRoutes routed_experts;

  std::string cache_salt;     // requests with other salts never share cached KV
  int32_t adapter_slot = -1;  // -1: no adapter
  int32_t priority = 0;       // lower runs first; ties by arrival
};

}  // namespace rlgen
