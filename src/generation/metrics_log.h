#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "contract/generation_interface.h"
#include "contract/shard.h"

namespace rlgen::generation {

// What a trainer reads of the shards' ShardMetrics: samples over time for its logger, and what one
// training step added. `shards` are always all of them, by index. Thread-safe.
class MetricsLog {
 public:
  // `log` gets a warning for windows that are begun twice or ended without a begin.
  explicit MetricsLog(LogSink log = {}) : log_(std::move(log)) {}

  // Adds one sample of every shard: inflight_batch_sizes (running sequences), num_pending_samples
  // (waiting ones), kv_cache_usage_perc (share of the KV blocks in use, 0 to 1) and
  // generation_tokens (generated since the start). Of each list the last kMostSamples are kept.
  void add(std::span<const ShardMetrics> shards);

  LoggerMetrics get() const;
  void clear();
  // The newest sample of each list, alone; nothing else is kept either.
  LoggerMetrics drain();

  // Begins a window at what `shards` count now. One that is open ends, with a warning.
  void snapshot(std::span<const ShardMetrics> shards);
  // Ends the window: what was counted in it, summed over `shards`, as rlgen/generated_tokens,
  // rlgen/prompt_tokens, rlgen/preemptions, rlgen/cache_hit_tokens and rlgen/cache_miss_tokens.
  // Without a window nothing, and a warning.
  StepMetrics step(std::span<const ShardMetrics> shards);

 private:
  LogSink log_;
  mutable std::mutex mutex_;
  LoggerMetrics samples_;             // guarded by mutex_
  std::optional<StepMetrics> begin_;  // guarded by mutex_
};

inline constexpr size_t kMostSamples = 10'000;

}  // namespace rlgen::generation
