#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/test_memory.h"
#include "engine/weights/read_back.h"
#include "engine/weights/spill_file.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"

namespace rlgen::engine {
namespace {

using test::kMegabyte;
using test::large_table;
using test::manifest_of;
using test::resident_bytes;
using test::run_update;
using test::small_manifest;
using test::small_table;
using test::tensor_bytes;

class StandDownTest : public ::testing::Test {
 protected:
  // What the tests themselves free goes back at once, whatever was freed before they ran: a limit
  // that is set does not grow with it.
  static void SetUpTestSuite() { ::mallopt(M_MMAP_THRESHOLD, 1 << 20); }

  static UpdateSpec update_of(WeightSerial serial, std::vector<ManifestEntry> manifest) {
    return {.update_id = "u" + std::to_string(serial),
            .serial = serial,
            .manifest = std::move(manifest)};
  }
  static void expect_served(const WeightStore& store, int seed) {
    for (const ManifestEntry& entry : small_manifest()) {
      EXPECT_EQ(*read_tensor(*store.current(), entry.name, entry.dtype), tensor_bytes(entry, seed));
    }
  }

  ManualClock clock;
  WeightStore store{small_table(), {.clock = &clock}};
};

TEST_F(StandDownTest, TheSameBitsComeBack) {
  ASSERT_TRUE(run_update(&store, update_of(1, small_manifest()), 1).ok());
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_TRUE(store.stand_down(/*keep=*/true).ok());
    EXPECT_EQ(store.current(), nullptr);
    EXPECT_EQ(store.served().status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(store.label().serial, 1u);
    ASSERT_TRUE(store.relabel(cycle + 5).ok());
    ASSERT_TRUE(store.wake().ok());
    ASSERT_TRUE(store.wake().ok());
    EXPECT_EQ(store.current()->version(), cycle + 5);
    EXPECT_EQ(store.current()->serial(), 1u);
    expect_served(store, 1);
  }
}

TEST_F(StandDownTest, AnUpdateThatCameFirstIsServedAtWaking) {
  ASSERT_TRUE(run_update(&store, update_of(1, small_manifest()), 1).ok());
  ASSERT_TRUE(store.stand_down(true).ok());
  ASSERT_TRUE(run_update(&store, update_of(2, small_manifest()), 2).ok());
  ASSERT_TRUE(store.wake().ok());
  expect_served(store, 2);
  EXPECT_EQ(store.label().version, 1);
}

TEST_F(StandDownTest, DroppedWeightsComeBackByAnUpdateOnly_FB119) {
  ASSERT_TRUE(run_update(&store, update_of(1, small_manifest()), 1).ok());
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_TRUE(store.stand_down(false).ok());
    ASSERT_TRUE(store.wake().ok());
    EXPECT_EQ(store.current(), nullptr);
    EXPECT_EQ(store.label().serial, 0u);
    EXPECT_FALSE(store.served().ok());
    ASSERT_TRUE(run_update(&store, update_of(WeightSerial(cycle) + 2, small_manifest()), 7).ok());
    expect_served(store, 7);
  }
}

TEST_F(StandDownTest, KeptWeightsMayBeGivenUpLater) {
  ASSERT_TRUE(run_update(&store, update_of(1, small_manifest()), 1).ok());
  ASSERT_TRUE(store.stand_down(true).ok());
  ASSERT_TRUE(store.stand_down(true).ok());
  ASSERT_TRUE(store.stand_down(false).ok());
  ASSERT_TRUE(store.wake().ok());
  EXPECT_EQ(store.current(), nullptr);
}

TEST_F(StandDownTest, NotDuringAnUpdate) {
  ASSERT_TRUE(run_update(&store, update_of(1, small_manifest()), 1).ok());
  ASSERT_TRUE(store.begin(update_of(2, small_manifest())).ok());
  EXPECT_EQ(store.stand_down(true).code(), absl::StatusCode::kFailedPrecondition);
  expect_served(store, 1);
}

TEST_F(StandDownTest, AFolderThatTakesNoFileLeavesTheWeightsServing) {
  WeightStore other(small_table(), {.clock = &clock, .flip = {}, .spill_folder = "/no/such"});
  ASSERT_TRUE(run_update(&other, update_of(1, small_manifest()), 1).ok());
  const Status status = other.stand_down(true);
  EXPECT_NE(message_of(status).find("/no/such"), std::string::npos) << status;
  expect_served(other, 1);
}

TEST_F(StandDownTest, T16_MemoryGoesBackToTheSystem_FB121) {
  WeightStore large(large_table(), {.clock = &clock});
  const std::vector<ManifestEntry> manifest = manifest_of(*large_table());
  const auto bytes = tensor_bytes(manifest[0], 3);
  const int64_t before = resident_bytes();
  ASSERT_TRUE(run_update(&large, update_of(1, manifest), 3).ok());
  ASSERT_TRUE(run_update(&large, update_of(2, manifest), 3).ok());
  EXPECT_GT(resident_bytes(), before + 120 * kMegabyte);  // two copies
  for (int cycle = 0; cycle < 4; ++cycle) {
    ASSERT_TRUE(large.stand_down(true).ok());
    EXPECT_LT(resident_bytes(), before + 8 * kMegabyte) << "cycle " << cycle;
    ASSERT_TRUE(large.wake().ok());
    EXPECT_LT(resident_bytes(), before + 72 * kMegabyte) << "cycle " << cycle;
  }
  EXPECT_EQ(*read_tensor(*large.current(), "w0", DType::kBFloat16), bytes);
}

// Lets this process map no more memory than it has, and a little.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    ::getrlimit(RLIMIT_AS, &before_);
    std::ifstream statm("/proc/self/statm");
    int64_t pages = 0;
    statm >> pages;
    const rlimit now{rlim_t(pages * ::sysconf(_SC_PAGESIZE) + 8 * kMegabyte), before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &now);
  }
  ~NoMoreMemory() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// Makes the file that the weights stand in shorter.
void damage_spilled_file() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry, gone).string();
    if (to.find("rlgen_spill_") != std::string::npos) ::truncate(entry.path().c_str(), kMegabyte);
  }
}

TEST_F(StandDownTest, FB120_OfAWakeThatFailsMemoryGoesBackToTheSystem) {
  WeightStore large(large_table(), {.clock = &clock});
  const std::vector<ManifestEntry> manifest = manifest_of(*large_table());
  ASSERT_TRUE(run_update(&large, update_of(1, manifest), 3).ok());
  ASSERT_TRUE(large.stand_down(true).ok());
  const int64_t asleep = resident_bytes();
  const auto expect_asleep = [&] {
    EXPECT_EQ(large.current(), nullptr);
    EXPECT_LT(resident_bytes(), asleep + 8 * kMegabyte);
  };
  {
    const NoMoreMemory limit;
    EXPECT_EQ(large.wake().code(), absl::StatusCode::kResourceExhausted);
  }
  expect_asleep();
  ASSERT_TRUE(large.wake().ok());
  EXPECT_EQ(*read_tensor(*large.current(), "w0", DType::kBFloat16), tensor_bytes(manifest[0], 3));
  ASSERT_TRUE(large.stand_down(true).ok());
  damage_spilled_file();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(large.wake().code(), absl::StatusCode::kDataLoss);
    expect_asleep();
  }
  ASSERT_TRUE(run_update(&large, update_of(2, manifest), 4).ok());
  EXPECT_EQ(*read_tensor(*large.current(), "w0", DType::kBFloat16), tensor_bytes(manifest[0], 4));
}

TEST(SpillFile, ReadsWhatItWroteAndNoticesDamage) {
  std::vector<std::byte> bytes(3'000'000, std::byte{5});
  auto file = SpillFile::write(bytes, "/tmp");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> back(bytes.size());
  ASSERT_TRUE(file->read(back).ok());
  EXPECT_EQ(back, bytes);
  std::vector<std::byte> longer(bytes.size() + 1);
  EXPECT_EQ(file->read(longer).code(), absl::StatusCode::kDataLoss);
  std::vector<std::byte> shorter(bytes.size() - 1);
  EXPECT_EQ(file->read(shorter).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace rlgen::engine
