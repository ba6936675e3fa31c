#pragma once

#include "cli/bench/context.h"
#include "cli/bench/figure.h"

namespace rlgen::cli {

// Rows that measure one part of a step alone, with the code that the engine runs; one run each.
// Errors: kResourceExhausted where there is no room for what is read.

// The attention of one new token in every layer, over a cache of `row.context` keys: bytes of keys
// and values a second.
StatusOr<Figure> measure_attention(BenchContext& context, const RowSpec& row);

// Drawing one token each for a batch of rows of logits: milliseconds of a step.
StatusOr<Figure> measure_sampling(BenchContext& context, const RowSpec& row);

// Planning a step of `row.batch` running sequences while `row.waiting` others wait, without a
// model: milliseconds, the least of some hundred steps.
StatusOr<Figure> measure_scheduler(BenchContext& context, const RowSpec& row);

}  // namespace rlgen::cli
