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

// In bytes.
struct MachineMemory {
  int64_t total = 0;  // of the machine, or what the control groups above this process let it have
  int64_t free = 0;   // that this process can still take
};

// What the kernel calls total and available, and not more than the control groups above this
// process allow and leave (limit minus use without file cache, version 2 or 1, the tightest).
// kNotFound when the kernel does not say; `free` is 0 when nothing is left.
StatusOr<MachineMemory> machine_memory(const MemoryFiles& files = {});

// Its `free`.
StatusOr<int64_t> free_memory(const MemoryFiles& files = {});

}  // namespace rlgen::backends
