#include "cli/bench/latencies.h"

#include <gmock/gmock.h>

#include <numeric>

namespace rlgen::cli {
namespace {

std::chrono::steady_clock::time_point at(int64_t milliseconds) {
  return std::chrono::steady_clock::time_point(std::chrono::milliseconds(milliseconds));
}

TEST(BenchLatencies, ArrivalsKeepTheirRateAndRepeat) {
  const std::vector<double> times = arrival_times(4000, 8.0, 1);
  EXPECT_EQ(times, arrival_times(4000, 8.0, 1));
  EXPECT_NE(times, arrival_times(4000, 8.0, 2));
  EXPECT_EQ(times.front(), 0.0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back() / 4000.0, 1.0 / 8.0, 0.125 * 0.1);
}

TEST(BenchLatencies, PercentilesAreValuesByRank) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1.0);
  EXPECT_EQ(percentile(values, 0.5), 50.0);
  EXPECT_EQ(percentile(values, 0.99), 99.0);
  EXPECT_EQ(percentile(values, 1.0), 100.0);
  EXPECT_EQ(percentile({7.0}, 0.0), 7.0);
  EXPECT_EQ(percentile({}, 0.5), 0.0);
}

TEST(BenchLatencies, CountsFromArrivalAndBetweenTokens) {
  ShardTimer::Run run;
  run.start = at(1000);
  run.tokens = {{.id = 5, .time = at(1100)},
                {.id = 5, .time = at(1150)},
                {.id = 6, .time = at(1350)},
                {.id = 5, .time = at(1350)}};
  const Latencies found = latencies(run, {0.0, 0.2}, 5);
  EXPECT_THAT(found.first_token, testing::ElementsAre(testing::DoubleNear(0.1, 1e-9),
                                                      testing::DoubleNear(0.15, 1e-9)));
  EXPECT_THAT(found.gaps, testing::ElementsAre(testing::DoubleNear(0.05, 1e-9),
                                               testing::DoubleNear(0.2, 1e-9)));
}

}  // namespace
}  // namespace rlgen::cli
