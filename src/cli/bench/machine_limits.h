#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "tensor/region.h"

namespace rlgen::cli {

// What the machine can do at best, measured now.
struct MachineLimits {
  double flops = 0.0;       // float32 operations a second, a fused multiply-add counted as two
  double read_bytes = 0.0;  // bytes a second that all threads together read
  int64_t buffer_bytes = 0;
};

// Fused multiply-adds a second out of registers, on all threads of the pool, for about `seconds`.
double measure_flops(const kernels::KernelTable& table, ThreadPool& pool, double seconds);

// A buffer whose reading is measured.
class ReadBuffer {
 public:
  // `bytes` is rounded up to whole kilobytes. kResourceExhausted when there is no room.
  static StatusOr<ReadBuffer> create(int64_t bytes, ThreadPool& pool);

  // Bytes a second of one pass over the buffer, each thread its own share.
  double measure(const kernels::KernelTable& table, ThreadPool& pool) const;
  int64_t bytes() const { return region_->size(); }

 private:
  explicit ReadBuffer(std::shared_ptr<Region> region) : region_(std::move(region)) {}
  std::shared_ptr<Region> region_;
};

}  // namespace rlgen::cli
