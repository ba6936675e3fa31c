#pragma once

#include <stdint.h>

#include "kernels/linear_bf16_impl.h"

// The matrix product of the bfloat16_amx profile without tile registers. Its arithmetic is that of
// the instruction tdpbf16ps: in each block of 32 of k one chain of fused multiply-adds for the even
// elements and one for the odd ones, both from zero; their sum is added to the sum of the blocks
// before. Subnormal numbers as in linear_bf16_impl.h. Numbers: docs/numbers.md.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int64_t kAmxPairs = 16;  // of a block of k

// Rows of x are rounded values in their order.
[[maybe_unused]] static void amx_operand(const float* x, int64_t k, float* out) {
  round_row(x, k, out);
}

// Some rows of x against neighbouring column tiles.
struct AmxMicro {
  const float* x;  // [rows, 2 * pairs]
  int64_t ldx;
  const uint16_t* w;  // of the first tile
  int64_t tile_stride;
  int64_t pairs;
};

// Adds pairs [begin, begin + count), at most a block, to the sums. The pairs that a last block
// lacks count as products of zeros, after which a chain that was -0 is +0: one of the two is
// enough.
template <int R, int T>
RLGEN_INLINE void add_amx_block(const AmxMicro& m, int64_t begin, int64_t count,
                                F32x16 (&sums)[R][T]) {
  F32x16 even[R][T];
  F32x16 odd[R][T];
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) even[r][t] = odd[r][t] = zero();
  }
  for (int64_t pair = begin; pair < begin + count; ++pair) {
    F32Pair row[T];
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) {
      const uint16_t* const w = m.w + t * m.tile_stride + pair * 32;
      fetch_pair(w + kFetchPairs * 32);
      row[t] = load_bf16_pair(w);
    }
    RLGEN_UNROLL
    for (int r = 0; r < R; ++r) {
      const float* const x = m.x + r * m.ldx + 2 * pair;
      const F32x16 x_even = broadcast(x[0]);
      const F32x16 x_odd = broadcast(x[1]);
      RLGEN_UNROLL
      for (int t = 0; t < T; ++t) {
        even[r][t] = fma(x_even, row[t].even, even[r][t]);
        odd[r][t] = fma(x_odd, row[t].odd, odd[r][t]);
      }
    }
  }
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) {
      if (count < kAmxPairs) odd[r][t] = odd[r][t] + zero();
      sums[r][t] = sums[r][t] + (even[r][t] + odd[r][t]);
    }
  }
}

// Rows [row, row + R) of y, tiles [tile, tile + T).
template <int R, int T>
[[gnu::noinline]] static void amx_micro(const LinearArgs& a, int64_t row, int64_t tile) {
  const int64_t stride = HalfWeights::tile_stride(a.w.k);
  const AmxMicro m = {.x = a.x + row * a.ldx,
                      .ldx = a.ldx,
                      .w = reinterpret_cast<const uint16_t*>(a.w.data) + tile * stride,
                      .tile_stride = stride,
                      .pairs = (a.w.k + 1) / 2};
  F32x16 sums[R][T];
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) sums[r][t] = zero();
  }
  for (int64_t pair = 0; pair < m.pairs; pair += kAmxPairs) {
    const int64_t left = m.pairs - pair;
    add_amx_block(m, pair, left < kAmxPairs ? left : kAmxPairs, sums);
  }
  RLGEN_UNROLL
  for (int t = 0; t < T; ++t) {
    const int64_t column = (tile + t) * 16;
    const int lanes = lanes_of_tile(a.w.n - column, 0);
    RLGEN_UNROLL
    for (int r = 0; r < R; ++r) {
      F32x16 sum = sums[r][t];
      if (a.bias != nullptr) sum = sum + load_n(a.bias + column, lanes);
      store_n(sum, a.y + (row + r) * a.ldy + column, lanes);
    }
  }
}

template <int T>
RLGEN_INLINE void amx_rows(const LinearArgs& a, int64_t tile) {
  int64_t row = 0;
#if defined(__AVX512F__)
  for (; row + 4 <= a.m; row += 4) amx_micro<4, T>(a, row, tile);
#endif
  for (; row + 2 <= a.m; row += 2) amx_micro<2, T>(a, row, tile);
  if (row < a.m) amx_micro<1, T>(a, row, tile);
}

[[maybe_unused]] static void amx_tiles(const LinearArgs& a, int64_t tile, int64_t end) {
#if defined(__AVX512F__)
  for (; tile + 2 <= end; tile += 2) amx_rows<2>(a, tile);
#endif
  for (; tile < end; ++tile) amx_rows<1>(a, tile);
}

#if defined(__aarch64__)

[[gnu::noinline]] static void exact_amx_tile(const LinearArgs& a, int64_t tile) {
  const auto* w =
      reinterpret_cast<const uint16_t*>(a.w.data) + tile * HalfWeights::tile_stride(a.w.k);
  const int lanes = lanes_of_tile(a.w.n - tile * 16, 0);
  for (int64_t row = 0; row < a.m; ++row) {
    const float* x = a.x + row * a.ldx;
    for (int lane = 0; lane < lanes; ++lane) {
      float sum = 0.0f;
      for (int64_t begin = 0; begin < a.w.k; begin += 2 * kAmxPairs) {
        float even = 0.0f;
        float odd = 0.0f;
        const int64_t end = begin + 2 * kAmxPairs;
        for (int64_t k = begin; k < end && k < a.w.k; k += 2) {
          const uint16_t* pair = w + k * 16 + lane * 2;
          even = exact_step(x[k], bf16_value(pair[0]), even);
          odd = exact_step(x[k + 1], bf16_value(pair[1]), odd);
        }
        if (end > a.w.k + 1) odd += 0.0f;
        sum = flush(sum + flush(even + odd));
      }
      const int64_t column = tile * 16 + lane;
      a.y[row * a.ldy + column] = a.bias == nullptr ? sum : flush(sum + flush(a.bias[column]));
    }
  }
}

[[maybe_unused]] static void linear_amx(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    clear_flags();
    amx_tiles(a, tile, tile + 1);
    if (!underflowed()) continue;
    const uint64_t mode = float_control();
    set_float_control(0);
    exact_amx_tile(a, tile);
    set_float_control(mode);
  }
}

#else

[[maybe_unused]] static void linear_amx(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  amx_tiles(a, tile_begin, tile_end);
}

#endif

}  // namespace rlgen::kernels::RLGEN_ISA
