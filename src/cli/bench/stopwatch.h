#pragma once

#include <algorithm>
#include <chrono>

namespace rlgen::cli {

inline double seconds_between(std::chrono::steady_clock::time_point begin,
                              std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return seconds_between(start, std::chrono::steady_clock::now());
}

// Seconds of the fastest of several runs: at least `passes`, and as many as take a tenth of a
// second together. `prepare` comes before each run and does not count.
template <typename Prepare, typename Run>
double best_seconds(int passes, const Prepare& prepare, const Run& run) {
  constexpr double kLeastSeconds = 0.1;
  double best = 0.0;
  double spent = 0.0;
  for (int pass = 0; pass < passes || spent < kLeastSeconds; ++pass) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    run();
    const double seconds = seconds_since(start);
    best = pass == 0 ? seconds : std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace rlgen::cli
