#include "cli/diff/traced_run.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "backends/local/local_launcher.h"

namespace rlgen::cli {
namespace {

// Waits for sequences 0 .. n - 1 to end.
class Ends final : public EventSink {
 public:
  void expect(size_t sequences) {
    const std::lock_guard lock(mutex_);
    ends_.assign(sequences, absl::OkStatus());
    open_ = sequences;
  }

  void on_events(EventBatch events) override {
    const std::lock_guard lock(mutex_);
    for (const SequenceEvent& event : events) {
      if (!event.finish) continue;
      if (event.finish->reason == FinishReason::kError) ends_.at(event.id) = event.finish->error;
      --open_;
    }
    if (open_ == 0) done_.notify_all();
  }

  // kDeadlineExceeded where the shard computes nothing for ten minutes.
  StatusOr<std::vector<Status>> wait(ShardClient& shard) {
    std::unique_lock lock(mutex_);
    int64_t before = -1;
    while (!done_.wait_for(lock, std::chrono::minutes(10), [&] { return open_ == 0; })) {
      const int64_t now = shard.health().progress;
      if (now == before) return absl::DeadlineExceededError("nothing was computed in ten minutes");
      before = now;
    }
    return ends_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  size_t open_ = 0;  // guarded by mutex_, as everything below
  std::vector<Status> ends_;
};

// One token is made, so that the last position runs too. Log-probabilities over the prompt make the
// engine compute every position to its end; they bypass the prefix cache.
SequenceRequest request_of(SequenceId id, const TokenIds& ids, bool whole) {
  SequenceRequest request{.id = id};
  request.prompt_token_ids = ids;
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = 1;
  request.sampling.seed = 0;
  if (whole) request.sampling.prompt_logprobs = 0;
  return request;
}

StatusOr<std::vector<Status>> run_once(ShardClient& shard, std::span<const TokenIds> sequences,
                                       bool whole, Ends* ends) {
  std::vector<SequenceRequest> requests;
  for (const TokenIds& ids : sequences) requests.push_back(request_of(requests.size(), ids, whole));
  ends->expect(sequences.size());
  RLGEN_RETURN_IF_ERROR(shard.submit(std::move(requests)));
  return ends->wait(shard);
}

}  // namespace

StatusOr<TracedRun> trace_run(const ShardSpec& spec, std::span<const TokenIds> sequences) {
  TraceRecorder recorder(sequences);
  Ends ends;
  TracedRun run;
  {
    const bool cached = spec.enable_prefix_caching;
    RLGEN_ASSIGN_OR_RETURN(const auto shard,
                           backends::LocalLauncher({}, &recorder).start(spec, ends));
    recorder.set_recording(!cached);
    RLGEN_ASSIGN_OR_RETURN(run.ends, run_once(*shard, sequences, !cached, &ends));
    if (cached) {
      recorder.set_recording(true);
      RLGEN_ASSIGN_OR_RETURN(run.ends, run_once(*shard, sequences, false, &ends));
    }
  }
  run.trace = recorder.take();
  for (size_t i = 0; i < run.ends.size(); ++i) {
    if (run.ends[i].ok() || !run.trace[i].points.empty()) continue;
    return annotate(run.ends[i], fmt::format("sequence {}", i));
  }
  return run;
}

}  // namespace rlgen::cli
