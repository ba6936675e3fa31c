#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/scratch.h"
#include "kernels/math.h"

namespace rlgen::kernels {
namespace {

// Float bits of [0, 1] in three steps of 11, 10 and 9 bits; the last has one value a bin.
constexpr std::array<int, 4> kShifts = {30, 19, 9, 0};
constexpr int kMaxBins = 1 << 11;
// Rows whose k-th largest element is smaller are looked at whole.
constexpr float kLeastOfTopK = 0x1p-10f;

struct Histogram {
  std::array<int32_t, kMaxBins> count;
  std::array<double, kMaxBins> mass;
};

// A row of weights.
struct Weights {
  const KernelTable& table;
  const float* p;
  int64_t n;
};

// Where a histogram looks: the level-th step below `prefix`.
struct Step {
  size_t level = 0;
  uint32_t prefix = 0;
};

// Filled from the row, with or without masses; the number of its bins.
int fill(const Weights& row, const Step& step, bool with_mass, Histogram* histogram) {
  const HistogramLevel which{step.prefix, kShifts[step.level], kShifts[step.level + 1]};
  const int bins = 1 << (which.prefix_shift - which.shift);
  std::fill_n(histogram->count.begin(), bins, 0);
  if (with_mass) std::fill_n(histogram->mass.begin(), bins, 0.0);
  row.table.row_histogram(row.p, row.n, which, histogram->count.data(),
                          with_mass ? histogram->mass.data() : nullptr);
  return bins;
}

Step below(const Step& step, int bin) {
  const int bits = kShifts[step.level] - kShifts[step.level + 1];
  return {step.level + 1, step.prefix << bits | static_cast<uint32_t>(bin)};
}

// Threshold at `value`, of whose `ties` elements the first `taken` survive.
Threshold cut_at(const Weights& row, float value, int64_t ties, int64_t taken) {
  for (int64_t i = 0; taken < ties && i < row.n; ++i) {
    if (row.p[i] == value && --taken == 0) return {value, static_cast<int32_t>(i)};
  }
  return {value, static_cast<int32_t>(row.n - 1)};
}

// The bin that brings *left, the largest elements still to be taken, to nothing; *left is then what
// it has to give.
int bin_of_count(const Histogram& histogram, int bins, int64_t* left) {
  int bin = bins - 1;
  for (; bin > 0 && histogram.count[bin] < *left; --bin) *left -= histogram.count[bin];
  return bin;
}

struct Stop {
  int bin = 0;
  bool reached = false;
};

// The bin that brings *running to target or, if none does, the lowest one with mass; *running is
// then the mass above that bin.
Stop bin_of_mass(const Histogram& histogram, int bins, double target, double* running) {
  Stop stop;
  double above = *running;
  double sum = *running;
  for (int bin = bins - 1; bin >= 0 && sum < target; --bin) {
    if (histogram.mass[bin] == 0.0) continue;
    above = sum;
    sum += histogram.mass[bin];
    stop = {bin, sum >= target};
  }
  *running = above;
  return stop;
}

// The elements of at least `least`, a power of two and so the begin of a bin: few are large, and
// adding one to its bin takes as long as passing over many. In memory of the calling thread, until
// it asks again; the whole row where `least` is 0.
Weights large_ones(const Weights& row, float least) {
  thread_local std::vector<float> taken;
  if (least == 0.0f) return row;
  float* const out = grown(taken, row.n + 1);
  return {row.table, out, row.table.row_at_least(row.p, row.n, least, out)};
}

// Elements below `spare / n` have no more than `spare` together, and those of real rows far less.
float least_of_top_p(double spare, int64_t n) {
  constexpr double kUnevenness = 8.0;
  const auto least = static_cast<float>(kUnevenness * spare / static_cast<double>(n));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(least) & 0x7f800000u);
}

// Where a walk down to a mass ends.
struct Cut {
  float value = 0.0f;
  int64_t ties = 0;      // elements of this value
  double above = 0.0;    // mass of the larger ones
  bool reached = false;  // the mass; else it is the lowest value that has any
};

Cut cut_of_mass(const Weights& row, double target) {
  Histogram histogram;
  Cut cut;
  Step step;
  while (step.level + 1 < kShifts.size()) {
    const int bins = fill(row, step, true, &histogram);
    const Stop stop = bin_of_mass(histogram, bins, target, &cut.above);
    if (step.level == 0) cut.reached = stop.reached;
    cut.ties = histogram.count[stop.bin];
    step = below(step, stop.bin);
  }
  cut.value = std::bit_cast<float>(step.prefix);
  return cut;
}

}  // namespace

float row_logprob(const RowSums& sums, float x) {
  return static_cast<float>((static_cast<double>(x) - static_cast<double>(sums.max)) -
                            log_of(sums.sum));
}

Threshold stricter(Threshold a, Threshold b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.last_tie < b.last_tie ? a : b;
}

Threshold top_k_threshold(const KernelTable& table, const float* p, int64_t n, int64_t k) {
  const Weights row{table, p, n};
  const Weights large = large_ones(row, kLeastOfTopK);
  const Weights& looked_at = large.n < k ? row : large;
  Histogram histogram;
  Step step;
  int64_t ties = 0;
  while (step.level + 1 < kShifts.size()) {
    const int bins = fill(looked_at, step, false, &histogram);
    const int bin = bin_of_count(histogram, bins, &k);
    ties = histogram.count[bin];
    step = below(step, bin);
  }
  return cut_at(row, std::bit_cast<float>(step.prefix), ties, k);
}

Threshold top_p_threshold(const KernelTable& table, const float* p, int64_t n, float top_p,
                          double whole) {
  const Weights row{table, p, n};
  const double target = static_cast<double>(top_p) * whole;
  Cut cut = cut_of_mass(large_ones(row, least_of_top_p(whole - target, n)), target);
  if (!cut.reached) cut = cut_of_mass(row, target);
  int64_t taken = 0;
  do {
    cut.above += static_cast<double>(cut.value);
    ++taken;
  } while (cut.above < target && taken < cut.ties);
  return cut_at(row, cut.value, cut.ties, taken);
}

int32_t draw(const float* p, const double* blocks, int64_t n, double u) {
  double total = 0.0;
  for (int64_t block = 0; block < row_blocks(n); ++block) total += blocks[block];
  const double target = u * total;

  double before = 0.0;
  int64_t chosen = 0;
  for (int64_t block = 0; block < row_blocks(n); ++block) {
    if (blocks[block] == 0.0) continue;
    chosen = block;
    if (before + blocks[block] > target) break;
    before += blocks[block];
  }

  int64_t last = chosen * kSumBlock;
  const int64_t end = std::min(n, last + kSumBlock);
  for (int64_t i = last; i < end; ++i) {
    if (p[i] == 0.0f) continue;
    last = i;
    before += static_cast<double>(p[i]);
    if (before > target) break;
  }
  return static_cast<int32_t>(last);
}

}  // namespace rlgen::kernels
