#include "generation/metrics_log.h"

#include <gmock/gmock.h>

namespace rlgen::generation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<ShardMetrics> busy_shards(int64_t first, int64_t second) {
  return {{.running = 2,
           .waiting = 1,
           .generated_tokens = first,
           .kv_blocks_used = 1,
           .kv_blocks_total = 4},
          {.running = 3, .generated_tokens = second}};
}

TEST(MetricsLog, SamplesStandUnderTheirShard) {
  MetricsLog log;
  EXPECT_THAT(log.get(), IsEmpty());
  log.add(busy_shards(10, 20));
  log.add(busy_shards(11, 25));
  LoggerMetrics metrics = log.get();
  EXPECT_THAT(metrics, SizeIs(4));
  EXPECT_THAT(metrics["inflight_batch_sizes"][1], ElementsAre(3, 3));
  EXPECT_THAT(metrics["num_pending_samples"][0], ElementsAre(1, 1));
  EXPECT_THAT(metrics["kv_cache_usage_perc"][0], ElementsAre(0.25, 0.25));
  EXPECT_THAT(metrics["kv_cache_usage_perc"][1], ElementsAre(0, 0));
  EXPECT_THAT(metrics["generation_tokens"][1], ElementsAre(20, 25));
  log.clear();
  EXPECT_THAT(log.get(), IsEmpty());
}

TEST(MetricsLog, T33_DrainingKeepsTheNewestOfEachList) {
  MetricsLog log;
  EXPECT_THAT(log.drain(), IsEmpty());
  log.add(busy_shards(10, 20));
  log.add(busy_shards(11, 25));
  EXPECT_THAT(log.drain()["generation_tokens"][1], ElementsAre(25));
  EXPECT_THAT(log.get()["generation_tokens"][1], ElementsAre(25));
  log.add(busy_shards(12, 26));
  EXPECT_THAT(log.drain()["generation_tokens"][1], ElementsAre(26));
}

TEST(MetricsLog, T33_ListsAreBounded) {
  MetricsLog log;
  for (size_t i = 0; i < kMostSamples + 3; ++i) {
    log.add(std::vector<ShardMetrics>{{.generated_tokens = static_cast<int64_t>(i)}});
  }
  const LoggerMetrics metrics = log.get();
  EXPECT_THAT(metrics.at("generation_tokens").at(0), SizeIs(kMostSamples));
  EXPECT_EQ(metrics.at("generation_tokens").at(0).front(), 3.0);
}

class StepWindow : public testing::Test {
 protected:
  std::vector<std::string> lines_;
  MetricsLog log_{[this](LogLevel, std::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(StepWindow, T34_IsWhatWasCountedInIt) {
  log_.snapshot(busy_shards(10, 20));
  StepMetrics step = log_.step(busy_shards(13, 25));
  EXPECT_THAT(step, SizeIs(5));
  EXPECT_EQ(step["rlgen/generated_tokens"], 8.0);
  EXPECT_EQ(step["rlgen/preemptions"], 0.0);
  log_.snapshot(busy_shards(13, 25));
  EXPECT_EQ(log_.step(busy_shards(13, 26))["rlgen/generated_tokens"], 1.0);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StepWindow, T34_WithoutABeginIsEmptyAndWarns) {
  EXPECT_THAT(log_.step(busy_shards(1, 1)), IsEmpty());
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("without snapshot_step_metrics")));
}

TEST_F(StepWindow, T34_BegunTwiceCountsFromTheSecondAndWarns) {
  log_.snapshot(busy_shards(0, 0));
  log_.snapshot(busy_shards(10, 20));
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("the second one counts")));
  EXPECT_EQ(log_.step(busy_shards(11, 20))["rlgen/generated_tokens"], 1.0);
}

}  // namespace
}  // namespace rlgen::generation
