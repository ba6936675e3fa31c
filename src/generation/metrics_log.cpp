#include "generation/metrics_log.h"

#include <array>
#include <utility>

namespace rlgen::generation {
namespace {

struct StepCounter {
  const char* name;
  int64_t ShardMetrics::*value;
};
constexpr std::array<StepCounter, 5> kStepCounters = {
    {{"rlgen/generated_tokens", &ShardMetrics::generated_tokens},
     {"rlgen/prompt_tokens", &ShardMetrics::prompt_tokens},
     {"rlgen/preemptions", &ShardMetrics::preemptions},
     {"rlgen/cache_hit_tokens", &ShardMetrics::cache_hit_tokens},
     {"rlgen/cache_miss_tokens", &ShardMetrics::cache_miss_tokens}}};

double kv_usage(const ShardMetrics& metrics) {
  if (metrics.kv_blocks_total == 0) return 0.0;
  return static_cast<double>(metrics.kv_blocks_used) / static_cast<double>(metrics.kv_blocks_total);
}

StepMetrics sum_counters(std::span<const ShardMetrics> shards) {
  StepMetrics sums;
  for (const StepCounter& counter : kStepCounters) {
    double& sum = sums[counter.name];
    for (const ShardMetrics& shard : shards) sum += static_cast<double>(shard.*counter.value);
  }
  return sums;
}

}  // namespace

void MetricsLog::add(std::span<const ShardMetrics> shards) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < shards.size(); ++i) {
    const ShardMetrics& shard = shards[i];
    const auto append = [this, i](const char* name, double value) {
      std::vector<double>& samples = samples_[name][static_cast<int32_t>(i)];
      if (samples.size() >= kMostSamples) samples.erase(samples.begin());
      samples.push_back(value);
    };
    append("inflight_batch_sizes", shard.running);
    append("num_pending_samples", shard.waiting);
    append("kv_cache_usage_perc", kv_usage(shard));
    append("generation_tokens", static_cast<double>(shard.generated_tokens));
  }
}

LoggerMetrics MetricsLog::get() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

void MetricsLog::clear() {
  const std::lock_guard lock(mutex_);
  samples_.clear();
}

LoggerMetrics MetricsLog::drain() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, shards] : samples_) {
    for (auto& [shard, samples] : shards) samples = {samples.back()};
  }
  return samples_;
}

void MetricsLog::snapshot(std::span<const ShardMetrics> shards) {
  StepMetrics now = sum_counters(shards);
  bool open = false;
  {
    const std::lock_guard lock(mutex_);
    open = std::exchange(begin_, std::move(now)).has_value();
  }
  if (!open) return;
  write_log(log_, LogLevel::kWarning,
            "snapshot_step_metrics was called twice; the second one counts");
}

StepMetrics MetricsLog::step(std::span<const ShardMetrics> shards) {
  std::optional<StepMetrics> begin;
  {
    const std::lock_guard lock(mutex_);
    begin = std::exchange(begin_, std::nullopt);
  }
  if (!begin) {
    write_log(log_, LogLevel::kWarning,
              "get_step_metrics was called without snapshot_step_metrics");
    return {};
  }
  StepMetrics added = sum_counters(shards);
  for (auto& [name, value] : added) value -= begin->at(name);
  return added;
}

}  // namespace rlgen::generation
