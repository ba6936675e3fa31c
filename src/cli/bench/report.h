#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/bench/figure.h"
#include "cli/bench/machine.h"
#include "cli/bench/machine_limits.h"
#include "cli/options.h"
#include "contract/shard.h"

namespace rlgen::cli {

inline constexpr int kBenchSchema = 2;  // of the JSON

// Everything that a run of the benchmark found.
struct BenchReport {
  MachineDescription machine;
  ShardInfo info;
  BenchOptions options;
  MachineLimits limits;  // the best of the whole run, reading over the weights of one step
  std::vector<Figure> figures;
};

// For people: the limits, then a line for each row.
std::string report_text(const BenchReport& report);

// For machines; docs/cli.md names the keys.
nlohmann::ordered_json report_json(const BenchReport& report);

}  // namespace rlgen::cli
