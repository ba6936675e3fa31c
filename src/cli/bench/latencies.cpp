#include "cli/bench/latencies.h"

#include <algorithm>
#include <cmath>

#include "kernels/philox.h"

namespace rlgen::cli {

std::vector<double> arrival_times(int32_t count, double rate, uint64_t seed) {
  std::vector<double> times;
  double now = 0.0;
  for (int32_t i = 0; i < count; ++i) {
    times.push_back(now);
    now -= std::log(1.0 - kernels::uniform(seed, 0, static_cast<uint64_t>(i))) / rate;
  }
  return times;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

Latencies latencies(const ShardTimer::Run& run, const std::vector<double>& arrivals,
                    SequenceId first_id) {
  Latencies result;
  std::vector<double> last(arrivals.size(), -1.0);
  for (const TokenTime& token : run.tokens) {
    const auto request = static_cast<size_t>(token.id - first_id);
    const double time = std::chrono::duration<double>(token.time - run.start).count();
    if (last[request] < 0.0) {
      result.first_token.push_back(time - arrivals[request]);
    } else {
      result.gaps.push_back(time - last[request]);
    }
    last[request] = time;
  }
  return result;
}

}  // namespace rlgen::cli
