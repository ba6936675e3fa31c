#include "base/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace rlgen {
namespace {

class CpuTest : public testing::Test {
 protected:
  CpuTest() {
    std::string name = testing::TempDir() + "rlgen_cpu_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~CpuTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& name, const std::string& content) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  std::optional<double> limit() { return cgroup_cpu_limit(root_ + "/self", root_ + "/fs"); }

  std::string root_;
};

TEST_F(CpuTest, NoGroupMeansNoLimit) {
  EXPECT_EQ(limit(), std::nullopt);
  put("self", "0::/\n");
  EXPECT_EQ(limit(), std::nullopt);
}

TEST_F(CpuTest, VersionTwoTakesTheTightestParent) {
  put("self", "0::/a/b\n");
  put("fs/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(limit(), std::nullopt);
  put("fs/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(limit(), 1.5);
  put("fs/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(limit(), 0.5);
}

TEST_F(CpuTest, VersionTwoInAContainerSeesOnlyTheRoot) {
  put("self", "0::/docker/abc\n");
  put("fs/cpu.max", "200000 100000\n");
  EXPECT_EQ(limit(), 2.0);
}

TEST_F(CpuTest, VersionOneReadsTheCpuController) {
  put("self", "3:cpuset:/x\n2:cpu,cpuacct:/a\n1:cpuacct:/x\n");
  put("fs/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  put("fs/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  put("fs/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("fs/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limit(), 3.0);
}

TEST_F(CpuTest, NonsenseIsNoLimit) {
  put("self", "0::/\nrubbish\n:\n");
  put("fs/cpu.max", "many 100000\n");
  EXPECT_EQ(limit(), std::nullopt);
  put("fs/cpu.max", "100000 0\n");
  EXPECT_EQ(limit(), std::nullopt);
}

TEST_F(CpuTest, CacheSizesSkipInstructions) {
  const auto cache = [&](const std::string& index, const std::string& level,
                         const std::string& type, const std::string& size) {
    put("cpu0/cache/" + index + "/level", level + "\n");
    put("cpu0/cache/" + index + "/type", type + "\n");
    put("cpu0/cache/" + index + "/size", size + "\n");
  };
  cache("index0", "1", "Data", "48K");
  cache("index1", "1", "Instruction", "32K");
  cache("index2", "2", "Unified", "2M");
  const CacheSizes sizes = read_cache_sizes(root_ + "/cpu0");
  EXPECT_EQ(sizes.l1, 48 * 1024);
  EXPECT_EQ(sizes.l2, 2 * 1024 * 1024);
  EXPECT_EQ(sizes.l3, 0);
}

TEST(Cpu, UsableCpusFollowTheAffinityMask) {
  int pinned = 0;
  std::thread([&] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    pinned = usable_cpus();
  }).join();
  EXPECT_EQ(pinned, 1);
  EXPECT_GE(detect_cpu().usable_cpus, 1);
}

TEST(Cpu, FeaturesImplyEachOther) {
  const CpuFeatures features = detect_cpu_features();
  EXPECT_LE(features.avx512_bf16, features.avx512);
  EXPECT_LE(features.amx_bf16, features.avx512_bf16);
  EXPECT_LE(features.avx512, features.avx2_fma);
  EXPECT_FALSE(features.neon && features.avx2_fma);
}

}  // namespace
}  // namespace rlgen
