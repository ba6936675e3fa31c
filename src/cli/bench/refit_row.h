#pragma once

#include "cli/bench/context.h"
#include "cli/bench/figure.h"

namespace rlgen::cli {

// An update of all weights over `row.transport` by a trainer that changed every element: its time
// on an idle shard, against as many copies of the bytes as the transport needs, and what sequences
// that decode meanwhile lose by another one, KV kept. The memory that it fills is touched: one
// update comes before, unmeasured. Afterwards the shard serves the checkpoint's weights again.
// Errors: those of the shard and the transports.
StatusOr<Figure> measure_refit(BenchContext& context, const RowSpec& row);

}  // namespace rlgen::cli
