#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "contract/shard.h"

namespace rlgen::cli {

// What one step of a shard brought.
struct StepRecord {
  std::chrono::steady_clock::time_point time;
  int64_t tokens = 0;
  int64_t keys = 0;  // that the rows of those tokens saw, summed; first tokens not counted
};

// A part of a run in which every step brought one token for each of the sequences.
struct SteadyWindow {
  int64_t steps = 0;
  int64_t tokens = 0;
  int64_t keys = 0;
  double seconds = 0.0;
};

// The longest such part of `steps`. Steps before the first one count as its start in time; a run
// without two full steps gives an empty window.
SteadyWindow steady_window(const std::vector<StepRecord>& steps, int64_t sequences);

// Times one group of equal prompts on a shard. Is the shard's sink: made before it.
class ShardTimer final : public EventSink {
 public:
  struct Run {
    double seconds = 0.0;  // from submit to the last token
    std::vector<StepRecord> steps;
  };

  // Submits `requests` and waits until all are finished. Errors: those of submit, of a sequence,
  // kDeadlineExceeded after ten minutes.
  StatusOr<Run> run(ShardClient& shard, std::vector<SequenceRequest> requests);

  void on_events(EventBatch events) override;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int64_t open_ = 0;                // guarded by mutex_, as everything below
  int64_t prompt_tokens_ = 0;       // of each prompt
  SequenceId first_id_ = 0;         // ids are first_id_, first_id_ + 1, ...
  std::vector<int64_t> generated_;  // by sequence
  std::vector<StepRecord> steps_;
  Status error_;
};

}  // namespace rlgen::cli
