#pragma once

#include <cstdint>
#include <vector>

#include "cli/bench/shard_timing.h"

namespace rlgen::cli {

// When requests arrive, in seconds from the start, as a Poisson process of `rate` a second has it;
// the same for the same seed everywhere. The first comes at 0.
std::vector<double> arrival_times(int32_t count, double rate, uint64_t seed);

// The value at share `share` (0 to 1) of the values in order, by nearest rank; 0 of none.
double percentile(std::vector<double> values, double share);

// How long requests waited, in seconds.
struct Latencies {
  std::vector<double> first_token;  // from arrival, of each request
  std::vector<double> gaps;         // between two tokens of one request
};

// `arrivals[i]` belongs to the request with id `first_id` + i.
Latencies latencies(const ShardTimer::Run& run, const std::vector<double>& arrivals,
                    SequenceId first_id);

}  // namespace rlgen::cli
