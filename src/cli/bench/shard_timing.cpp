#include "cli/bench/shard_timing.h"

#include <utility>

namespace rlgen::cli {

using SteadyClock = std::chrono::steady_clock;

SteadyWindow steady_window(const std::vector<StepRecord>& steps, int64_t sequences) {
  SteadyWindow best;
  SteadyWindow now;
  for (size_t i = 1; i < steps.size(); ++i) {
    const bool full = steps[i].tokens == sequences && steps[i].keys > 0;
    if (!full) {
      now = {};
      continue;
    }
    now.steps += 1;
    now.tokens += steps[i].tokens;
    now.keys += steps[i].keys;
    now.seconds += std::chrono::duration<double>(steps[i].time - steps[i - 1].time).count();
    if (now.steps > best.steps) best = now;
  }
  return best;
}

void ShardTimer::on_events(EventBatch events) {
  const auto time = SteadyClock::now();
  const std::lock_guard lock(mutex_);
  StepRecord step{.time = time};
  bool only_first = false;
  for (const SequenceEvent& event : events) {
    int64_t& generated = generated_.at(static_cast<size_t>(event.id - first_id_));
    for (size_t i = 0; i < event.tokens.size(); ++i) {
      ++step.tokens;
      only_first = only_first || generated == 0;
      if (generated > 0) step.keys += prompt_tokens_ + generated;
      ++generated;
    }
    if (!event.finish) continue;
    if (event.finish->reason == FinishReason::kError && error_.ok()) error_ = event.finish->error;
    --open_;
  }
  if (only_first) step.keys = 0;
  steps_.push_back(step);
  if (open_ == 0) done_.notify_all();
}

StatusOr<ShardTimer::Run> ShardTimer::run(ShardClient& shard,
                                          std::vector<SequenceRequest> requests) {
  {
    const std::lock_guard lock(mutex_);
    open_ = static_cast<int64_t>(requests.size());
    prompt_tokens_ = static_cast<int64_t>(requests.front().prompt_token_ids.size());
    first_id_ = requests.front().id;
    generated_.assign(requests.size(), 0);
    steps_.clear();
    error_ = absl::OkStatus();
  }
  const auto start = SteadyClock::now();
  RLGEN_RETURN_IF_ERROR(shard.submit(std::move(requests)));
  std::unique_lock lock(mutex_);
  if (!done_.wait_for(lock, std::chrono::minutes(10), [&] { return open_ == 0; })) {
    return absl::DeadlineExceededError("a row of the benchmark took more than ten minutes");
  }
  RLGEN_RETURN_IF_ERROR(error_);
  Run run{.steps = std::move(steps_)};
  run.seconds = std::chrono::duration<double>(run.steps.back().time - start).count();
  return run;
}

}  // namespace rlgen::cli
