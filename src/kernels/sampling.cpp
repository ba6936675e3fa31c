#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/math.h"

namespace rlgen::kernels {
namespace {

// Float bits of [0, 1] in three steps of 11, 10 and 9 bits; the last has one value a bin.
constexpr std::array<int, 4> kShifts = {30, 19, 9, 0};
constexpr int kMaxBins = 1 << 11;

struct Histogram {
  std::array<int32_t, kMaxBins> count;
  std::array<double, kMaxBins> mass;
};

// The level-th step below `prefix`, filled from p; with or without masses.
int fill(const KernelTable& table, const float* p, int64_t n, size_t level, uint32_t prefix,
         bool with_mass, Histogram* histogram) {
  const HistogramLevel which{prefix, kShifts[level], kShifts[level + 1]};
  const int bins = 1 << (which.prefix_shift - which.shift);
  std::fill_n(histogram->count.begin(), bins, 0);
  if (with_mass) std::fill_n(histogram->mass.begin(), bins, 0.0);
  table.row_histogram(p, n, which, histogram->count.data(),
                      with_mass ? histogram->mass.data() : nullptr);
  return bins;
}

uint32_t extended(uint32_t prefix, size_t level, int bin) {
  return prefix << (kShifts[level] - kShifts[level + 1]) | static_cast<uint32_t>(bin);
}

// Threshold at `value`, of whose `ties` elements the first `taken` survive.
Threshold cut_at(const float* p, int64_t n, float value, int64_t ties, int64_t taken) {
  if (taken == ties) return {value, static_cast<int32_t>(n - 1)};
  for (int64_t i = 0; i < n; ++i) {
    if (p[i] == value && --taken == 0) return {value, static_cast<int32_t>(i)};
  }
  return {value, static_cast<int32_t>(n - 1)};
}

double mass_from_the_top(const Histogram& histogram, int bins) {
  double total = 0.0;
  for (int bin = bins - 1; bin >= 0; --bin) total += histogram.mass[bin];
  return total;
}

// The bin that brings *running to target or, if none does, the lowest one with mass; *running is
// then the mass above that bin.
int bin_of_mass(const Histogram& histogram, int bins, double target, double* running) {
  int chosen = 0;
  double above = *running;
  for (int bin = bins - 1; bin >= 0 && *running < target; --bin) {
    if (histogram.mass[bin] == 0.0) continue;
    chosen = bin;
    above = *running;
    *running += histogram.mass[bin];
  }
  *running = above;
  return chosen;
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
  Histogram histogram;
  uint32_t prefix = 0;
  int64_t ties = 0;
  for (size_t level = 0; level + 1 < kShifts.size(); ++level) {
    int bin = fill(table, p, n, level, prefix, false, &histogram) - 1;
    for (; bin > 0 && histogram.count[bin] < k; --bin) k -= histogram.count[bin];
    prefix = extended(prefix, level, bin);
    ties = histogram.count[bin];
  }
  return cut_at(p, n, std::bit_cast<float>(prefix), ties, k);
}

Threshold top_p_threshold(const KernelTable& table, const float* p, int64_t n, float top_p) {
  Histogram histogram;
  uint32_t prefix = 0;
  int64_t ties = 0;
  double target = 0.0;
  double running = 0.0;
  for (size_t level = 0; level + 1 < kShifts.size(); ++level) {
    const int bins = fill(table, p, n, level, prefix, true, &histogram);
    if (level == 0) target = static_cast<double>(top_p) * mass_from_the_top(histogram, bins);
    const int bin = bin_of_mass(histogram, bins, target, &running);
    prefix = extended(prefix, level, bin);
    ties = histogram.count[bin];
  }
  const float value = std::bit_cast<float>(prefix);
  int64_t taken = 0;
  do {
    running += static_cast<double>(value);
    ++taken;
  } while (running < target && taken < ties);
  return cut_at(p, n, value, ties, taken);
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
