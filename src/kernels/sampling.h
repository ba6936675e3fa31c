#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/math.h"

namespace rlgen::kernels {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), keyed by the
// seed, counter (position, sample index): a uniform double in [0, 1) with 53 bits.
double uniform(uint64_t seed, uint32_t sample_index, uint64_t position);

// log-probability of an element with logit x in a row of these sums: (x - max) - log_of(sum) in
// double, rounded to float32 once.
float row_logprob(const RowSums& sums, float x);

// Which elements of a row of weights p (from row_sums) survive: p[i] > value, or p[i] == value and
// i <= last_tie.
struct Threshold {
  float value = 0.0f;
  int32_t last_tie = 0;
};

// The k largest, ties by lower index. k in [1, n].
Threshold top_k_threshold(const KernelTable& table, const float* p, int64_t n, int64_t k);

// The smallest set of largest elements whose mass reaches top_p of the whole, by the histogram
// order of docs/numbers.md; always at least one element.
Threshold top_p_threshold(const KernelTable& table, const float* p, int64_t n, float top_p);

// First index whose running sum exceeds u times the whole, over p > 0 in index order on the grid of
// docs/numbers.md.
int32_t draw(const float* p, int64_t n, double u);

}  // namespace rlgen::kernels
