#include "refit/version_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace rlgen::refit {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class VersionFolder : public ::testing::Test {
 protected:
  VersionFolder() { std::filesystem::remove_all(root_); }
  ~VersionFolder() override { std::filesystem::remove_all(root_); }

  void add(const std::string& name, bool stable) const {
    std::filesystem::create_directories(root_ + "/" + name);
    if (stable) std::ofstream(root_ + "/" + name + "/" + kStableMarker) << "";
  }

  const std::string root_ = testing::TempDir() + "rlgen_versions_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(VersionFolder, TheNewestCompleteOneCounts_FB105) {
  add("step_3", true);
  add("step_12", true);
  add("step_13", false);  // still being written
  add("notes", true);
  add("step_x4", true);
  const auto found = *newest_version(root_, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->version, 12);
  EXPECT_EQ(found->folder, root_ + "/step_12");
  EXPECT_FALSE(newest_version(root_, 13)->has_value());
  add("12", true);
  EXPECT_THAT(newest_version(root_, 0).status().message(), HasSubstr("are both version 12"));
}

TEST_F(VersionFolder, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(newest_version("/no/such", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(VersionFolder, WaitsForAVersion_FB107) {
  const auto clock = make_system_clock();
  add("v-499", true);
  const auto late = wait_for_version(root_, 500, milliseconds(80), *clock);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.status().message(), HasSubstr("the newest one is 499"));
  EXPECT_EQ(
      wait_for_version(root_, 500, milliseconds(80), *clock, [] { return true; }).status().code(),
      absl::StatusCode::kCancelled);
  std::jthread trainer([&] {
    std::this_thread::sleep_for(milliseconds(60));
    add("v-500", true);
  });
  const auto found = wait_for_version(root_, 500, std::chrono::seconds(20), *clock);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->version, 500);
}

}  // namespace
}  // namespace rlgen::refit
