#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

// Memory of this process, for tests that show that it goes back to the system.
namespace rlgen::engine::test {

inline constexpr int64_t kMegabyte = 1 << 20;

// Bytes of this process in memory now.
inline int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  EXPECT_TRUE(statm.good());
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace rlgen::engine::test
