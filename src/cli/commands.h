#pragma once

#include "base/status.h"
#include "cli/options.h"

namespace rlgen::cli {

// Each command prints its results to standard output and what a person may want to know beside them
// to standard error, and returns the exit code: 0 good, 1 some lines failed, 128 + signal when a
// signal stopped it. An error is for the caller to print.
StatusOr<int> run_generate(const GenerateOptions& options);
StatusOr<int> run_score(const ScoreOptions& options);
StatusOr<int> run_inspect(const InspectOptions& options);
StatusOr<int> run_bench(const BenchOptions& options);
StatusOr<int> run_selftest(const SelftestOptions& options);
// 1 means that there is a difference.
StatusOr<int> run_diff(const DiffOptions& options);

inline constexpr int kExitGood = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

}  // namespace rlgen::cli
