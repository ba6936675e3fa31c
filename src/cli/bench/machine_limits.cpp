#include "cli/bench/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "cli/bench/stopwatch.h"

namespace rlgen::cli {
namespace {

constexpr int64_t kShareFloats = 16 * 1024;  // of one task: 64 KiB
constexpr int64_t kShareBytes = kShareFloats * int64_t{sizeof(float)};

constexpr double kFlopsSeconds = 0.05;
constexpr int kReadPasses = 2;
constexpr double kLeastRead = 2e8;  // bytes of all passes over a small buffer

int64_t shares_of(int64_t bytes) {
  return std::max<int64_t>(1, (bytes + kShareBytes - 1) / kShareBytes);
}

// Sixteen floats a thread, far apart.
struct alignas(64) Sink {
  float values[32];
};

}  // namespace

double measure_flops(const kernels::KernelTable& table, kernels::Profile profile, ThreadPool& pool,
                     double seconds) {
  const bool rounded_operands = profile != kernels::Profile::kFloat32;
  const kernels::RoundedKernels& rounded = kernels::rounded_kernels(table, profile);
  const auto loop = rounded_operands ? rounded.peak : table.peak_fma;
  const int64_t round_flops = rounded_operands ? rounded.peak_flops : table.peak_flops;
  const FloatMode mode = rounded_operands ? FloatMode::kFlush : FloatMode::kGradual;
  const int threads = pool.num_threads();
  std::vector<Sink> sinks(static_cast<size_t>(threads));
  double best = 0.0;
  int64_t rounds = 1000;
  for (double spent = 0.0; spent < seconds;) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(
        threads, [&](int64_t task, int) { loop(rounds, sinks[static_cast<size_t>(task)].values); },
        mode);
    const double time = seconds_since(start);
    spent += time;
    const double operations = static_cast<double>(rounds * round_flops * threads);
    best = std::max(best, operations / time);
    if (time < 0.01) rounds *= 2;
  }
  return best;
}

StatusOr<ReadBuffer> ReadBuffer::create(int64_t bytes, ThreadPool& pool) {
  const int64_t shares = shares_of(bytes);
  RLGEN_ASSIGN_OR_RETURN(auto region, Region::create(shares * kShareBytes));
  pool.run(shares, [&](int64_t task, int) {
    std::memset(region->data() + task * kShareBytes, 1, static_cast<size_t>(kShareBytes));
  });
  return ReadBuffer(std::move(region));
}

double ReadBuffer::measure(const kernels::KernelTable& table, ThreadPool& pool,
                           int64_t bytes) const {
  std::vector<Sink> sinks(static_cast<size_t>(pool.num_threads()));
  const auto* const floats = reinterpret_cast<const float*>(region_->data());
  const int64_t shares = std::min(shares_of(bytes), region_->size() / kShareBytes);
  const auto start = std::chrono::steady_clock::now();
  pool.run(shares, [&](int64_t task, int thread) {
    table.peak_read(floats + task * kShareFloats, kShareFloats,
                    sinks[static_cast<size_t>(thread)].values);
  });
  return static_cast<double>(shares * kShareBytes) / seconds_since(start);
}

MachineLimits better_of(const MachineLimits& a, const MachineLimits& b) {
  return {.flops = std::max(a.flops, b.flops),
          .read_bytes = std::max(a.read_bytes, b.read_bytes),
          .buffer_bytes = b.buffer_bytes};
}

StatusOr<MachineLimits> LimitMeter::measure(int64_t bytes) {
  if (!buffer_ || buffer_->bytes() < bytes) {
    buffer_.reset();
    RLGEN_ASSIGN_OR_RETURN(buffer_, ReadBuffer::create(bytes, pool_));
  }
  MachineLimits now{.flops = measure_flops(table_, profile_, pool_, kFlopsSeconds),
                    .buffer_bytes = bytes};
  const double least_passes = kReadPasses;
  const double passes = std::max(least_passes, kLeastRead / static_cast<double>(bytes));
  for (int i = 0; i < static_cast<int>(passes); ++i) {
    now.read_bytes = std::max(now.read_bytes, buffer_->measure(table_, pool_, bytes));
  }
  best_.flops = std::max(best_.flops, now.flops);
  if (bytes >= base_bytes_) {
    best_.read_bytes = std::max(best_.read_bytes, now.read_bytes);
    best_.buffer_bytes = base_bytes_;
  }
  return now;
}

}  // namespace rlgen::cli
