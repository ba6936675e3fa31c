#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "refit/fleet.h"

namespace rlgen::fleet_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UpdateReports : public ::testing::Test {
 protected:
  UpdateReports() {
    generation::GenerationOptions options;
    options.log = [this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::kWarning) warnings_.emplace_back(message);
    };
    const ShardSpec spec{.model = fixture("llama"), .num_threads = 1};
    generation_ = *generation::Generation::start(launcher_, {spec, spec}, std::move(options));
  }
  ~UpdateReports() override { generation_->shutdown().IgnoreError(); }

  UpdateReport update(const std::string& id, std::span<const refit::NamedTensor> tensors,
                      std::optional<WeightVersion> base = std::nullopt) {
    const UpdateSpec spec{.update_id = id, .base = base};
    EXPECT_TRUE(refit::send_tensors(tensors, spec, generation_->updates(), nullptr).ok());
    const auto report = generation_->updates().last_report();
    EXPECT_TRUE(report.has_value());
    return report.value_or(UpdateReport{});
  }

  const TrainerWeights a_{"llama", 0x10};
  const TrainerWeights b_{"llama", 0x24};
  backends::LocalLauncher launcher_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;  // guarded by mutex_
  std::unique_ptr<generation::Generation> generation_;
};

// The trainer that sent the frozen weights at every step.
TEST_F(UpdateReports, FB099_AnUpdateThatChangesNothingIsAWarning) {
  EXPECT_EQ(generation_->updates().last_report(), std::nullopt);
  const auto all = int64_t(a_.tensors().size());
  int64_t bytes = 0;
  for (const refit::NamedTensor& tensor : a_.tensors()) {
    bytes += int64_t(a_.bytes(tensor.name).size());
  }
  const UpdateReport first = update("first", a_.tensors());
  EXPECT_EQ(first.tensors, all);
  EXPECT_EQ(first.bytes, bytes);
  EXPECT_EQ(first.changed, all);
  EXPECT_EQ(first.staging_peak, 0);
  EXPECT_THAT(warnings_, IsEmpty());

  EXPECT_EQ(update("second", a_.tensors()).changed, 0);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("update second")));
  EXPECT_THAT(warnings_[0], HasSubstr("0 tensors changed"));

  std::vector<refit::NamedTensor> some = a_.tensors();
  some[1] = b_.tensors()[1];
  EXPECT_EQ(update("third", some).changed, 1);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(UpdateReports, FB083_APartialUpdateCountsWhatItLists) {
  ASSERT_EQ(update("all", a_.tensors()).tensors, int64_t(a_.tensors().size()));
  const std::span<const refit::NamedTensor> three = std::span(b_.tensors()).first(3);
  const UpdateReport report = update("three", three, 1);
  EXPECT_EQ(report.tensors, 3);
  EXPECT_EQ(report.changed, 3);
}

}  // namespace
}  // namespace rlgen::fleet_test
