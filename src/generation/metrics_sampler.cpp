#include "generation/metrics_sampler.h"

#include <condition_variable>
#include <utility>

namespace rlgen::generation {

MetricsSampler::MetricsSampler(Read read, LogSink log)
    : read_(std::move(read)), log_(std::move(log)) {
  thread_ = std::jthread([this](std::stop_token stop) { sample(std::move(stop)); });
}

void MetricsSampler::stop() {
  std::jthread thread;
  const std::lock_guard lock(mutex_);
  thread.swap(thread_);
}

LoggerMetrics MetricsSampler::get() {
  log_.add(read_());
  return log_.get();
}

LoggerMetrics MetricsSampler::drain() {
  log_.add(read_());
  return log_.drain();
}

void MetricsSampler::sample(std::stop_token stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  const auto over = [&stop] { return stop.stop_requested(); };
  while (!stopped.wait_for(lock, stop, kSampleInterval, over)) log_.add(read_());
}

}  // namespace rlgen::generation
