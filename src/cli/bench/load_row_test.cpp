#include "cli/bench/load_row.h"

#include <gmock/gmock.h>

#include <fstream>

#include "cli/bench/machine_limits.h"

namespace rlgen::cli {
namespace {

TEST(BenchLoad, ReadsEveryFile) {
  const std::string path = testing::TempDir() + "/weights";
  std::ofstream(path) << std::string(3'000'001, 'x');
  ThreadPool pool(2);
  const auto limit = measure_load_limit({path, path}, 5'000'000, pool);
  ASSERT_TRUE(limit.ok()) << limit.status();
  EXPECT_GT(limit->pass, 0.0);
  EXPECT_GT(limit->copy, 0.0);
}

TEST(BenchLoad, AMissingFileIsNamed) {
  ThreadPool pool(1);
  const auto limit = measure_load_limit({testing::TempDir() + "/no-such-file"}, 1000, pool);
  ASSERT_FALSE(limit.ok());
  EXPECT_THAT(std::string(limit.status().message()), testing::HasSubstr("no-such-file"));
}

TEST(BenchLimits, EachProfileHasItsOwnPeak) {
  ThreadPool pool(1);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const kernels::KernelTable& table = *kernels::kernel_table(isa);
    for (const kernels::Profile profile : kernels::kProfiles) {
      EXPECT_GT(measure_flops(table, profile, pool, 0.01), 1e6)
          << kernels::isa_name(isa) << " " << kernels::profile_name(profile);
    }
  }
}

TEST(BenchLimits, SmallBuffersDoNotCountAsTheMachinesBandwidth) {
  ThreadPool pool(1);
  const auto kernels = kernels::select_kernels("auto");
  ASSERT_TRUE(kernels.ok());
  LimitMeter meter(**kernels, kernels::Profile::kFloat32, pool, 1 << 20);
  ASSERT_TRUE(meter.measure(1 << 16).ok());
  EXPECT_EQ(meter.best().read_bytes, 0.0);
  EXPECT_GT(meter.best().flops, 0.0);
  const auto limits = meter.measure(1 << 20);
  ASSERT_TRUE(limits.ok());
  EXPECT_GT(limits->read_bytes, 0.0);
  EXPECT_EQ(meter.best().read_bytes, limits->read_bytes);
  EXPECT_EQ(meter.buffer_bytes(), 1 << 20);
}

}  // namespace
}  // namespace rlgen::cli
