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

// A token of a run.
struct TokenTime {
  SequenceId id = 0;
  std::chrono::steady_clock::time_point time;  // of the end of its step
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

// Seconds of each step that brought one token for each of the sequences, none of them its first.
std::vector<double> full_step_seconds(const std::vector<StepRecord>& steps, int64_t sequences);

// Times requests on a shard. Is the shard's sink: made before it.
class ShardTimer final : public EventSink {
 public:
  struct Run {
    std::chrono::steady_clock::time_point start;
    double seconds = 0.0;  // from the first submit to the last token
    std::vector<StepRecord> steps;
    std::vector<TokenTime> tokens;
    int64_t cached_tokens = 0;  // of the prompts, found in the prefix cache
  };

  // Submits `requests`, whose ids count up from the first, and waits until all are finished: all at
  // once, or each at its time in `arrivals` (seconds from the start, rising). Errors: those of
  // submit, of a sequence, kDeadlineExceeded after ten minutes.
  StatusOr<Run> run(ShardClient& shard, std::vector<SequenceRequest> requests,
                    const std::vector<double>& arrivals = {});

  void on_events(EventBatch events) override;

 private:
  void begin(const std::vector<SequenceRequest>& requests);

  std::mutex mutex_;
  std::condition_variable done_;
  int64_t open_ = 0;                    // guarded by mutex_, as everything below
  SequenceId first_id_ = 0;             // ids are first_id_, first_id_ + 1, ...
  std::vector<int64_t> prompt_tokens_;  // by sequence
  std::vector<int64_t> generated_;      // by sequence
  Run run_;
  Status error_;
};

}  // namespace rlgen::cli
