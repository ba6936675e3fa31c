#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "cli/diff/trace.h"
#include "contract/shard.h"

namespace rlgen::cli {

// What a model computed for some sequences.
struct TracedRun {
  Trace trace;
  // Of each sequence: OK, or why it ended early; its rows up to there are in the trace.
  std::vector<Status> ends;
};

// Starts a shard in this process, runs the sequences through it, all submitted at once, and writes
// down every position. With a prefix cache they run twice, and the second run, which finds the
// cache filled, is the one that is written down: the positions that it took from there are missing,
// and of all but the last one what comes after the last layer's attention. A sequence that fills
// the context lacks its last position. Errors: those of the launcher; a sequence's own, with its
// number, where nothing of it was computed.
StatusOr<TracedRun> trace_run(const ShardSpec& spec, std::span<const TokenIds> sequences);

}  // namespace rlgen::cli
