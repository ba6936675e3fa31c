#include "backends/local/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace rlgen::backends {
namespace {

namespace fs = std::filesystem;

class FreeMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = fs::path(::testing::TempDir()) /
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root);
    files = {root / "meminfo", root / "cgroup", root / "sys"};
    write("meminfo", "MemTotal: 9000 kB\nMemAvailable:   1000 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  fs::path root;
  MemoryFiles files;
};

TEST_F(FreeMemoryTest, TakesTheKernelsWordWithoutGroups) {
  EXPECT_EQ(*free_memory(files), 1000 * 1024);
  EXPECT_EQ(machine_memory(files)->total, 9000 * 1024);
  write("cgroup", "0::/a/b\n");
  write("sys/a/b/memory.max", "max\n");
  write("sys/a/b/memory.current", "77\n");
  EXPECT_EQ(*free_memory(files), 1000 * 1024);
}

TEST_F(FreeMemoryTest, TheTightestGroupAboveCounts) {
  write("cgroup", "0::/a/b\n");
  write("sys/a/b/memory.max", "500000\n");
  write("sys/a/b/memory.current", "100000\n");
  EXPECT_EQ(*free_memory(files), 400000);
  EXPECT_EQ(machine_memory(files)->total, 500000);
  write("sys/a/memory.max", "500000\n");
  write("sys/a/memory.current", "450000\n");
  EXPECT_EQ(*free_memory(files), 50000);
  write("sys/a/memory.current", "550000\n");
  EXPECT_EQ(*free_memory(files), 0);
}

TEST_F(FreeMemoryTest, CachedFilesAreNotInTheWay) {
  write("cgroup", "0::/a\n");
  write("sys/a/memory.max", "500000\n");
  write("sys/a/memory.current", "490000\n");
  write("sys/a/memory.stat",
        "anon 1000\nworkingset_active_file 7\ninactive_file 300000\nactive_file 20000\n");
  EXPECT_EQ(*free_memory(files), 330000);
}

TEST_F(FreeMemoryTest, ReadsVersionOne) {
  write("cgroup", "5:memory:/x\n2:cpu,cpuacct:/y\n");
  write("sys/memory/x/memory.limit_in_bytes", "300000\n");
  write("sys/memory/x/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(*free_memory(files), 200000);
}

TEST_F(FreeMemoryTest, SaysWhenTheKernelDoesNot) {
  write("meminfo", "MemTotal: 9000 kB\n");
  EXPECT_EQ(free_memory(files).status().code(), absl::StatusCode::kNotFound);
  write("meminfo", "MemAvailable: 9000 kB\n");
  EXPECT_EQ(machine_memory(files).status().code(), absl::StatusCode::kNotFound);
  EXPECT_GT(*free_memory(), 0);
  EXPECT_GE(machine_memory()->total, machine_memory()->free);
}

}  // namespace
}  // namespace rlgen::backends
