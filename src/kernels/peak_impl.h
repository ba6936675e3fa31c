#pragma once

#include <stdint.h>

#include "kernels/simd/macros.h"

// Loops that do nothing but what the machine does fastest; `rlgen bench` measures its limits with
// them.
namespace rlgen::kernels::RLGEN_ISA {

// As many sums as the matrix product keeps, so that the loop waits for no result.
constexpr int kPeakSums = kGemmRows * gemm_tiles(kGemmRows);
constexpr int64_t kPeakFlops = int64_t{2} * 16 * kPeakSums;

[[maybe_unused]] static void peak_fma(int64_t rounds, float* out) {
  // Lanes that differ, or the compiler would compute the parts of a vector once for all.
  constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const F32x16 half = broadcast(0.5f);
  F32x16 sums[kPeakSums];
  RLGEN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) sums[i] = load(kLanes) + broadcast(float(i));
  for (int64_t round = 0; round < rounds; ++round) {
    RLGEN_UNROLL
    for (int i = 0; i < kPeakSums; ++i) sums[i] = fma(sums[i], half, half);
  }
  F32x16 total = zero();
  RLGEN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) total = total + sums[i];
  store(total, out);
}

#if defined(RLGEN_BF16_DOT)
constexpr int64_t kPeakDotFlops = 2 * kPeakFlops;

[[maybe_unused]] static void peak_dot(int64_t rounds, float* out) {
  constexpr float kHalves = 0x1.007ep-1f;  // 0.5 and 0.5 as bfloat16
  const Bf16Pairs half = broadcast_pair(&kHalves);
  F32x16 sums[kPeakSums];
  RLGEN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) sums[i] = broadcast(float(i));
  for (int64_t round = 0; round < rounds; ++round) {
    RLGEN_UNROLL
    for (int i = 0; i < kPeakSums; ++i) sums[i] = add_dot(half, half, sums[i]);
  }
  F32x16 total = zero();
  RLGEN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) total = total + sums[i];
  store(total, out);
}
#endif

// Several streams at once, each fetched ahead, read faster than one.
[[maybe_unused]] static void peak_read(const float* x, int64_t n, float* out) {
  constexpr int kStreams = 8;
  constexpr int64_t kAhead = 512;  // floats
  F32x16 sums[kStreams];
  RLGEN_UNROLL
  for (int j = 0; j < kStreams; ++j) sums[j] = zero();
  const int64_t length = n / kStreams / 16 * 16;
  for (int64_t i = 0; i < length; i += 16) {
    RLGEN_UNROLL
    for (int j = 0; j < kStreams; ++j) {
      __builtin_prefetch(x + j * length + i + kAhead, 0, 2);
      sums[j] = sums[j] + load(x + j * length + i);
    }
  }
  F32x16 total = zero();
  RLGEN_UNROLL
  for (int j = 0; j < kStreams; ++j) total = total + sums[j];
  for (int64_t i = length * kStreams; i < n; i += 16) total = total + load(x + i);
  store(total, out);
}

}  // namespace rlgen::kernels::RLGEN_ISA
