#pragma once

#include <string_view>

#include "base/status.h"
#include "contract/sampling_params.h"

namespace rlgen::generation {

// The sampling defaults of a generation_config.json, over `base`: temperature, top_k, top_p, min_p,
// repetition_penalty and max_new_tokens (as max_tokens), the keys that vLLM takes. Every other key
// is left alone: the stop ids reach the shard by another way. kInvalidArgument names a key with a
// value that cannot be; a null counts as absent.
StatusOr<SamplingParams> apply_generation_config(std::string_view json, const SamplingParams& base);

}  // namespace rlgen::generation
