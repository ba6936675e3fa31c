#pragma once

#include <optional>

#include "engine/request_check.h"
#include "engine/schedule/sequence.h"

namespace rlgen::engine {

// Whether output token `index` (a position of `sequence.tokens`) stops the sequence, by the first
// of: an end-of-sequence id (nothing named), a stop token id (that id), a stop string (that
// string). Nothing before min_tokens counts. Shows the token to the sequence's watcher, so call it
// once per output token, in order, the earlier output included.
std::optional<Finish> stop_at_token(const RequestLimits& limits, const Sequence& sequence,
                                    int32_t index);

// Whether no further token may come: max_tokens reached, or the context is full.
std::optional<Finish> stop_at_length(const RequestLimits& limits, const Sequence& sequence);

// What stops a sequence before its first step: a stop within the earlier output, or its length; for
// scoring, that there is no output to score.
std::optional<Finish> stop_before_start(const RequestLimits& limits, const Sequence& sequence);

}  // namespace rlgen::engine
