#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/schedule/sequence.h"

namespace rlgen::engine {

// What requests are held against.
struct RequestLimits {
  int32_t vocab_size = 0;     // ids 0 .. vocab_size-1 are valid
  int32_t max_model_len = 0;  // tokens of prompt and output together
  std::vector<int32_t> eos_token_ids;
};

// The record of a request that is sound. kInvalidArgument names the field and the value: an empty
// prompt, an id outside the vocabulary, sampling parameters out of range, an output prefix longer
// than the prompt, a missing seed, stop words that are text still, scoring without output; a prompt
// (for scoring: with its output) that leaves no room in the context says "context_length_exceeded"
// and both numbers. kUnimplemented for an adapter.
StatusOr<std::unique_ptr<Sequence>> make_sequence(SequenceRequest request,
                                                  const RequestLimits& limits);

}  // namespace rlgen::engine
