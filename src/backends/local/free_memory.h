#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace rlgen::backends {

// Where the numbers come from; tests point elsewhere.
struct MemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string self_cgroup = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

// Bytes that this process can still take: what the kernel calls available, and not more than the
// control groups above it leave (limit minus use without file cache, version 2 or 1, the tightest).
// kNotFound when the kernel does not say; 0 when nothing is left.
StatusOr<int64_t> free_memory(const MemoryFiles& files = {});

}  // namespace rlgen::backends
