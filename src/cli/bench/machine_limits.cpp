#include "cli/bench/machine_limits.h"

#include <chrono>
#include <cstring>
#include <vector>

namespace rlgen::cli {
namespace {

constexpr int64_t kShareFloats = 16 * 1024;  // of one task: 64 KiB
constexpr int64_t kShareBytes = kShareFloats * int64_t{sizeof(float)};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Sixteen floats a thread, far apart.
struct alignas(64) Sink {
  float values[32];
};

}  // namespace

double measure_flops(const kernels::KernelTable& table, ThreadPool& pool, double seconds) {
  const int threads = pool.num_threads();
  std::vector<Sink> sinks(static_cast<size_t>(threads));
  double best = 0.0;
  int64_t rounds = 1000;
  for (double spent = 0.0; spent < seconds;) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(threads, [&](int64_t task, int) {
      table.peak_fma(rounds, sinks[static_cast<size_t>(task)].values);
    });
    const double time = seconds_since(start);
    spent += time;
    const double operations = static_cast<double>(rounds * table.peak_flops * threads);
    best = std::max(best, operations / time);
    if (time < 0.01) rounds *= 2;
  }
  return best;
}

StatusOr<ReadBuffer> ReadBuffer::create(int64_t bytes, ThreadPool& pool) {
  const int64_t shares = (bytes + kShareBytes - 1) / kShareBytes;
  RLGEN_ASSIGN_OR_RETURN(auto region, Region::create(shares * kShareBytes));
  pool.run(shares, [&](int64_t task, int) {
    std::memset(region->data() + task * kShareBytes, 1, static_cast<size_t>(kShareBytes));
  });
  return ReadBuffer(std::move(region));
}

double ReadBuffer::measure(const kernels::KernelTable& table, ThreadPool& pool) const {
  std::vector<Sink> sinks(static_cast<size_t>(pool.num_threads()));
  const auto* const floats = reinterpret_cast<const float*>(region_->data());
  const auto start = std::chrono::steady_clock::now();
  pool.run(region_->size() / kShareBytes, [&](int64_t task, int thread) {
    table.peak_read(floats + task * kShareFloats, kShareFloats,
                    sinks[static_cast<size_t>(thread)].values);
  });
  return static_cast<double>(region_->size()) / seconds_since(start);
}

}  // namespace rlgen::cli
