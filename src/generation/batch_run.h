#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"
#include "contract/rollout_sink.h"
#include "generation/generation.h"

namespace rlgen::generation {

// How far a run is.
struct BatchProgress {
  int64_t rollouts = 0;  // accepted by the sink
  int64_t tokens = 0;    // generated, of those
  int64_t in_flight = 0;
};

// What a source gives when it is asked for a request.
struct NextRequest {
  std::optional<GenerationRequest> request;
  bool ended = false;  // without a request: there will be none; else there is none yet
};

// A stream of requests and where their rollouts go. All functions are called by the thread that
// runs the batch.
struct BatchJob {
  // The next request. A source that has none yet may wait for one where `may_wait` says so, that is
  // while nothing is in flight, but no longer than until `interrupted` is true. An error ends the
  // run.
  std::function<StatusOr<NextRequest>(bool may_wait)> next;
  // A request that was refused before it reached a shard. An error ends the run.
  std::function<Status(const GenerationRequest& request, const Status& why)> rejected;
  // Gets each rollout as it finishes; while it blocks, no new request is taken.
  RolloutSink* sink = nullptr;
  // Requests are taken while fewer sequences than this are in flight.
  int64_t max_in_flight = 128;
  std::function<bool()> interrupted;                   // true: stop; may be empty
  std::function<void(const BatchProgress&)> progress;  // every tick; may be empty
  std::chrono::milliseconds tick{50};
};

// Runs the job to its end. kCancelled when interrupted: what is in flight is cancelled and leaves
// no trace in the sink. Errors of next, rejected and the sink come through, and those of
// Generation::check_progress.
Status run_batch(Generation& generation, const BatchJob& job);

}  // namespace rlgen::generation
