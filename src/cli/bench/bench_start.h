#pragma once

#include <vector>

#include "cli/bench/context.h"
#include "cli/bench/figure.h"

namespace rlgen::cli {

// Opens the model and starts the shard `loads` times; the last one stays. Fills the whole context.
// `load` gets the best of the starts. Errors: those of opening, starting and the options.
Status start_bench(BenchContext* context, int32_t loads, Figure* load);

// The memory that start and rows took.
Figure memory_figure(const BenchContext& context);

}  // namespace rlgen::cli
