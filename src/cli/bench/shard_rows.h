#pragma once

#include "cli/bench/context.h"
#include "cli/bench/figure.h"

namespace rlgen::cli {

// Rows that are measured on the shard as a whole, sampling included; one run each. Errors: the
// shard's and LimitMeter's.

// Prompts that nothing is known of, to their first token.
StatusOr<Figure> measure_prefill(BenchContext& context, const RowSpec& row);

// The steps in which every sequence of the batch gets one token. kInvalidArgument where
// --decode-tokens leaves none.
StatusOr<Figure> measure_decode(BenchContext& context, const RowSpec& row);

// Requests of mixed length that arrive one after the other.
StatusOr<Figure> measure_mixed(BenchContext& context, const RowSpec& row);

}  // namespace rlgen::cli
