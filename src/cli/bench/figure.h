#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rlgen::cli {

// What one row of the benchmark came to, in one run or in the best of several.
struct Figure {
  std::string row;  // its name
  double value = 0.0;
  std::string unit;          // "tok/s", "GB/s", "ms" or "MB"
  double limit = 0.0;        // what the machine would allow, in that unit; 0: not known
  double fraction = 0.0;     // of the limit; 0: not known
  std::string limited_by;    // "arithmetic", "reading", ...; empty: no limit
  int32_t runs = 0;          // how many there were; the best one counts
  bool of_all_runs = false;  // stands for every run so far: the last one counts
  std::string skipped;       // why there was no run; empty where there was
  std::vector<std::pair<std::string, double>> details;  // name with unit, value
};

// Whether more of `unit` is better: rates yes, times and sizes no.
bool more_is_better(const std::string& unit);

// How many times as good `now` is as `before`, both in `unit`: above 1 is better.
double improvement(const std::string& unit, double before, double now);

// Sets limit and fraction of a figure whose value is set.
void set_limit(Figure* figure, double limit, std::string limited_by);

// Keeps the better one of two runs of a row in `best` and counts the runs. An empty `best` takes
// any; a run that was left out makes it so.
void keep_better(const Figure& run, Figure* best);

}  // namespace rlgen::cli
