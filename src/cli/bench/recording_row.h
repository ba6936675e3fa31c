#pragma once

#include "cli/bench/context.h"
#include "cli/bench/figure.h"

namespace rlgen::cli {

// What it costs to record routes: the same requests in turn on the shard and on one that differs
// from it in this alone and shares its weights, in many short pairs of runs. The value is the rate
// with recording, the limit that without, each the median of all runs so far; overhead_percent is
// the median of the pairs, with its quartiles. Left out, with the reason, where the other shard has
// no room. Errors: the launcher's and the shards'.
StatusOr<Figure> measure_recording(BenchContext& context, const RowSpec& row);

}  // namespace rlgen::cli
