#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/philox.h"

// What sampling needs beside the row kernels of a KernelTable. A row of weights p comes from
// row_sums: 0 <= p[i] <= 1. Pure functions; the orders of summation are those of docs/numbers.md.
namespace rlgen::kernels {

// Blocks of the summation grid that a row of n elements has.
constexpr int64_t row_blocks(int64_t n) { return (n + kSumBlock - 1) / kSumBlock; }

// Log-probability of an element with logit x in a row of these sums: (x - max) - log(sum) in
// double, rounded to float32 once. Finite wherever x and sum are.
float row_logprob(const RowSums& sums, float x);

inline bool survives(Threshold keep, float p, int64_t index) {
  return p > keep.value || (p == keep.value && index <= keep.last_tie);
}

// The one of two that lets fewer elements survive.
Threshold stricter(Threshold a, Threshold b);

// The k largest, ties by lower index. k in [1, n].
Threshold top_k_threshold(const KernelTable& table, const float* p, int64_t n, int64_t k);

// The smallest set of largest elements, ties by lower index, whose mass reaches top_p of `whole`,
// the sum of p; never empty and never with an element of 0. Masses are added as a histogram in
// three levels (docs/numbers.md). top_p in (0, 1]; some p[i] > 0.
Threshold top_p_threshold(const KernelTable& table, const float* p, int64_t n, float top_p,
                          double whole);

// The first index whose running sum exceeds u times the whole, over p > 0: whole blocks in order,
// then the elements of one block in order. `blocks` are the sums of p's blocks. The last element
// with p > 0 where rounding leaves none. u in [0, 1); some p[i] > 0.
int32_t draw(const float* p, const double* blocks, int64_t n, double u);

}  // namespace rlgen::kernels
