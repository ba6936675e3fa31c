#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "kernels/ops.h"
#include "tensor/region.h"

namespace rlgen::cli {

// What the machine can do at best, measured now.
struct MachineLimits {
  double flops = 0.0;       // of the profile, a multiply-add counted as two
  double read_bytes = 0.0;  // bytes a second that all threads together read
  int64_t buffer_bytes = 0;
};

// Operations a second of the profile's products out of registers, a multiply-add counted as two, on
// all threads of the pool, for about `seconds`.
double measure_flops(const kernels::KernelTable& table, kernels::Profile profile, ThreadPool& pool,
                     double seconds);

// A buffer whose reading is measured.
class ReadBuffer {
 public:
  // `bytes` is rounded up to whole shares of 64 KiB. kResourceExhausted when there is no room.
  static StatusOr<ReadBuffer> create(int64_t bytes, ThreadPool& pool);

  // Bytes a second of one pass over the first `bytes` of the buffer, rounded up to whole shares and
  // at most all of it; each thread its own share.
  double measure(const kernels::KernelTable& table, ThreadPool& pool, int64_t bytes) const;
  int64_t bytes() const { return region_->size(); }

 private:
  explicit ReadBuffer(std::shared_ptr<Region> region) : region_(std::move(region)) {}
  std::shared_ptr<Region> region_;
};

// Measures the machine beside each row, since machines change their speed while one looks (clock,
// neighbours). One thread uses it.
class LimitMeter {
 public:
  // `pool` has as many threads as what is measured beside. Reading counts in best() where the
  // buffer has at least `base_bytes`: a smaller one may lie in a cache.
  LimitMeter(const kernels::KernelTable& table, kernels::Profile profile, ThreadPool& pool,
             int64_t base_bytes)
      : table_(table), profile_(profile), pool_(pool), base_bytes_(base_bytes) {}

  // Both limits now, the reading one over a buffer of `bytes`. kResourceExhausted as ReadBuffer.
  StatusOr<MachineLimits> measure(int64_t bytes);

  const MachineLimits& best() const { return best_; }  // of all calls so far
  int64_t buffer_bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  const kernels::KernelTable& table_;
  kernels::Profile profile_;
  ThreadPool& pool_;
  int64_t base_bytes_;
  std::optional<ReadBuffer> buffer_;  // grows to the largest that was asked for
  MachineLimits best_;
};

// The better value of each.
MachineLimits better_of(const MachineLimits& a, const MachineLimits& b);

}  // namespace rlgen::cli
