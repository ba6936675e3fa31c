#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "contract/generation_interface.h"
#include "contract/shard.h"
#include "generation/metrics_log.h"

namespace rlgen::generation {

inline constexpr std::chrono::milliseconds kSampleInterval{500};

// A MetricsLog that is kept up: a thread of its own adds a sample every kSampleInterval, and each
// question adds one of now. Thread-safe.
class MetricsSampler {
 public:
  // The metrics of every shard, by index. Called by any thread.
  using Read = std::function<std::vector<ShardMetrics>()>;

  // `log` is MetricsLog's.
  explicit MetricsSampler(Read read, LogSink log = {});
  MetricsSampler(const MetricsSampler&) = delete;
  MetricsSampler& operator=(const MetricsSampler&) = delete;
  ~MetricsSampler() { stop(); }

  // Ends the thread. Questions are answered as before. Repeated calls are safe.
  void stop();

  // As MetricsLog has them.
  LoggerMetrics get();
  LoggerMetrics drain();
  void clear() { log_.clear(); }
  void snapshot() { log_.snapshot(read_()); }
  StepMetrics step() { return log_.step(read_()); }

 private:
  void sample(std::stop_token stop);

  const Read read_;
  MetricsLog log_;
  std::mutex mutex_;
  std::jthread thread_;  // guarded by mutex_
};

}  // namespace rlgen::generation
