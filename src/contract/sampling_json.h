#pragma once

#include <nlohmann/json_fwd.hpp>

#include "contract/sampling_params.h"

namespace rlgen {

// The JSON names of SamplingParams are its field names; logit_bias is an object of string ids,
// top_k, max_tokens, seed and prompt_logprobs may be null, stop may be one string.

// Sets the fields of `params` that `object` carries. An unknown key, a wrong type, a number that is
// not finite, or a value out of range is kInvalidArgument naming "<path>.<key>" and the value; an
// unknown key gets a "did you mean". `path` may be empty.
Status merge_sampling_json(const nlohmann::json& object, std::string_view path,
                           SamplingParams* params);

// True where `key` is a field of SamplingParams in JSON.
bool is_sampling_key(std::string_view key);

// Every field, in declaration order; reading it back gives an equal value.
nlohmann::ordered_json sampling_to_json(const SamplingParams& params);

}  // namespace rlgen
