#include "cli/bench/figure.h"

namespace rlgen::cli {

bool more_is_better(const std::string& unit) { return unit.ends_with("/s"); }

double improvement(const std::string& unit, double before, double now) {
  return more_is_better(unit) ? now / before : before / now;
}

void set_limit(Figure* figure, double limit, std::string limited_by) {
  figure->limit = limit;
  figure->fraction = more_is_better(figure->unit) ? figure->value / limit : limit / figure->value;
  figure->limited_by = std::move(limited_by);
}

void keep_better(const Figure& run, Figure* best) {
  const int32_t runs = best->runs + (run.skipped.empty() ? 1 : 0);
  const bool first = best->runs == 0;
  const bool replaces = first || run.of_all_runs || !run.skipped.empty();
  if (replaces || improvement(run.unit, best->value, run.value) > 1.0) *best = run;
  best->runs = runs;
}

}  // namespace rlgen::cli
