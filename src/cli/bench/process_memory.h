#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace rlgen::cli {

// Memory of this process that is in use, in bytes.
struct ProcessMemory {
  int64_t resident = 0;
  int64_t peak = 0;  // the most that was resident, since the start or reset_peak_memory()
};

// kNotFound where the kernel does not say; file_error's.
StatusOr<ProcessMemory> read_process_memory(const std::string& status_file = "/proc/self/status");

// Lets the peak count from now on. False where the kernel does not allow it.
bool reset_peak_memory();

}  // namespace rlgen::cli
