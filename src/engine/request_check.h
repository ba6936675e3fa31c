#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/routes/route_layers.h"
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

// Begins the delivery of routes where the request says. kInvalidArgument names what is wrong: a
// start of routes that are not recorded or beyond the tokens given; given routes for a model
// without experts, or those that check_given_routes refuses: there may be as many rows as the
// sequence may get tokens, for scoring as many as it has or one less.
Status check_routes(Sequence* sequence, const RouteLayers& layers, bool recorded);

}  // namespace rlgen::engine
