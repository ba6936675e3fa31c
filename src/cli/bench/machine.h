#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/cpu.h"

namespace rlgen::cli {

// The machine and the build that figures belong to.
struct MachineDescription {
  std::string cpu;   // "AMD EPYC 7763", as the kernel names it; the architecture where it does not
  int32_t cpus = 0;  // that this process may use
  CacheSizes caches;
  int64_t memory_bytes = 0;  // of the machine; 0: not known
  std::string kernel;        // "Linux 6.1.0"
  std::string compiler;
  std::string version;  // of rlgen
};

// Where the numbers come from; tests point elsewhere.
struct MachineFiles {
  std::string cpuinfo = "/proc/cpuinfo";
  std::string meminfo = "/proc/meminfo";
};

MachineDescription describe_machine(const MachineFiles& files = {});

nlohmann::ordered_json to_json(const MachineDescription& machine);

}  // namespace rlgen::cli
