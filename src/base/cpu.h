#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rlgen {

// What the processor and the operating system allow together.
struct CpuFeatures {
  bool avx2_fma = false;     // and F16C
  bool avx512 = false;       // F, BW, VL and DQ
  bool avx512_bf16 = false;  // and avx512
  bool amx_bf16 = false;     // and avx512_bf16; the process has been given the tile registers
  bool neon = false;
};

// Asks the operating system for the tile registers where the processor has them: on Linux a process
// may use them from then on.
CpuFeatures detect_cpu_features();

// Bytes of data cache as one core sees them; 0 where unknown.
struct CacheSizes {
  std::int64_t l1 = 0;
  std::int64_t l2 = 0;
  std::int64_t l3 = 0;
};

// From the `cache` folder of one CPU in sysfs.
CacheSizes read_cache_sizes(const std::string& cpu_folder = "/sys/devices/system/cpu/cpu0");

// CPUs that this process's control group lets it use at a time (quota / period), the tightest of
// the group and its parents, version 2 or 1; nothing where there is no limit.
std::optional<double> cgroup_cpu_limit(const std::string& self_cgroup = "/proc/self/cgroup",
                                       const std::string& cgroup_root = "/sys/fs/cgroup");

// CPUs of this machine that are switched on, whether or not this process may use them. At least 1.
int machine_cpus();

// How many threads can run at once: the CPUs of the calling thread's affinity mask, and not more
// than the control group's limit rounded up. At least 1.
int usable_cpus();

struct CpuInfo {
  int usable_cpus = 1;
  CpuFeatures features;
  CacheSizes caches;
};

CpuInfo detect_cpu();

}  // namespace rlgen
