#include "generation/metrics_sampler.h"

#include <gmock/gmock.h>

#include <atomic>

namespace rlgen::generation {
namespace {

using testing::SizeIs;

TEST(MetricsSampler, SamplesByItselfUntilItIsStopped) {
  std::atomic<int> asked = 0;
  MetricsSampler sampler([&asked] {
    ++asked;
    return std::vector<ShardMetrics>{{.running = 2}};
  });
  while (asked < 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  sampler.stop();
  sampler.stop();
  const int taken = asked;
  EXPECT_THAT(sampler.get()["inflight_batch_sizes"][0], SizeIs(taken + 1));
  std::this_thread::sleep_for(kSampleInterval + std::chrono::milliseconds(100));
  EXPECT_EQ(asked, taken + 1);
  sampler.clear();
  EXPECT_THAT(sampler.drain()["inflight_batch_sizes"][0], SizeIs(1));
}

TEST(MetricsSampler, AWindowCountsWhatCameInIt) {
  std::atomic<int64_t> made = 3;
  std::vector<std::string> warnings;
  MetricsSampler sampler(
      [&made] { return std::vector<ShardMetrics>{{.generated_tokens = made}}; },
      [&warnings](LogLevel, std::string_view message) { warnings.emplace_back(message); });
  EXPECT_TRUE(sampler.step().empty());
  EXPECT_THAT(warnings, SizeIs(1));
  sampler.snapshot();
  made = 10;
  EXPECT_EQ(sampler.step().at("rlgen/generated_tokens"), 7.0);
}

}  // namespace
}  // namespace rlgen::generation
