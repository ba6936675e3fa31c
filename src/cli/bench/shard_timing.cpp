#include "cli/bench/shard_timing.h"

#include <thread>
#include <utility>

#include "cli/bench/stopwatch.h"

namespace rlgen::cli {

using SteadyClock = std::chrono::steady_clock;

namespace {

bool is_full(const StepRecord& step, int64_t sequences) {
  return step.tokens == sequences && step.keys > 0;
}

}  // namespace

SteadyWindow steady_window(const std::vector<StepRecord>& steps, int64_t sequences) {
  SteadyWindow best;
  SteadyWindow now;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (!is_full(steps[i], sequences)) {
      now = {};
      continue;
    }
    now.steps += 1;
    now.tokens += steps[i].tokens;
    now.keys += steps[i].keys;
    now.seconds += seconds_between(steps[i - 1].time, steps[i].time);
    if (now.steps > best.steps) best = now;
  }
  return best;
}

std::vector<double> full_step_seconds(const std::vector<StepRecord>& steps, int64_t sequences) {
  std::vector<double> seconds;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (is_full(steps[i], sequences))
      seconds.push_back(seconds_between(steps[i - 1].time, steps[i].time));
  }
  return seconds;
}

void ShardTimer::on_events(EventBatch events) {
  const auto time = SteadyClock::now();
  const std::lock_guard lock(mutex_);
  StepRecord step{.time = time};
  bool only_first = false;
  for (const SequenceEvent& event : events) {
    const auto sequence = static_cast<size_t>(event.id - first_id_);
    int64_t& generated = generated_.at(sequence);
    for (size_t i = 0; i < event.tokens.size(); ++i) {
      ++step.tokens;
      run_.tokens.push_back({.id = event.id, .time = time});
      only_first = only_first || generated == 0;
      if (generated > 0) step.keys += prompt_tokens_[sequence] + generated;
      ++generated;
    }
    if (!event.finish) continue;
    if (event.finish->reason == FinishReason::kError && error_.ok()) error_ = event.finish->error;
    run_.cached_tokens += event.finish->cached_tokens;
    --open_;
  }
  if (only_first) step.keys = 0;
  run_.steps.push_back(step);
  if (open_ == 0) done_.notify_all();
}

void ShardTimer::begin(const std::vector<SequenceRequest>& requests) {
  const std::lock_guard lock(mutex_);
  open_ = static_cast<int64_t>(requests.size());
  first_id_ = requests.front().id;
  prompt_tokens_.clear();
  for (const SequenceRequest& request : requests) {
    prompt_tokens_.push_back(static_cast<int64_t>(request.prompt_token_ids.size()));
  }
  generated_.assign(requests.size(), 0);
  run_ = {};
  run_.start = SteadyClock::now();
  error_ = absl::OkStatus();
}

StatusOr<ShardTimer::Run> ShardTimer::run(ShardClient& shard, std::vector<SequenceRequest> requests,
                                          const std::vector<double>& arrivals) {
  begin(requests);
  const auto start = SteadyClock::now();
  if (arrivals.empty()) {
    RLGEN_RETURN_IF_ERROR(shard.submit(std::move(requests)));
  }
  for (size_t i = 0; i < arrivals.size(); ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration_cast<SteadyClock::duration>(
                                              std::chrono::duration<double>(arrivals[i])));
    std::vector<SequenceRequest> one;
    one.push_back(std::move(requests[i]));
    RLGEN_RETURN_IF_ERROR(shard.submit(std::move(one)));
  }
  std::unique_lock lock(mutex_);
  if (!done_.wait_for(lock, std::chrono::minutes(10), [&] { return open_ == 0; })) {
    return absl::DeadlineExceededError("a row of the benchmark took more than ten minutes");
  }
  RLGEN_RETURN_IF_ERROR(error_);
  run_.seconds = seconds_between(run_.start, run_.steps.back().time);
  return std::move(run_);
}

}  // namespace rlgen::cli
