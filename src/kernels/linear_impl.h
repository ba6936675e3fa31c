#pragma once

#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/simd/macros.h"

// The matrix product. A micro block is kRows rows of x times kTiles column tiles of w; its sums
// stay in registers while k runs. Few rows read the packed weights and widen them on the way. Many
// rows would widen the same weights again for each block of rows, so there a piece of k of one
// block of tiles is widened once into a panel. Either way each sum walks k from 0 upward.
namespace rlgen::kernels::RLGEN_ISA {

// How each stored type reads. All hold 32 elements for each pair of k: [16][2] or [2][16].
struct Bf16Weights {
  using Element = uint16_t;
  RLGEN_INLINE F32x16 even(const Element* p) { return load_bf16_pair(p).even; }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load_bf16_pair(p).odd; }
  RLGEN_INLINE int64_t tile_stride(int64_t k) { return (k + 1) / 2 * 32; }
};

struct F16Weights {
  using Element = uint16_t;
  RLGEN_INLINE F32x16 even(const Element* p) { return load_f16_pair(p).even; }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load_f16_pair(p).odd; }
  RLGEN_INLINE int64_t tile_stride(int64_t k) { return (k + 1) / 2 * 32; }
};

struct F32Weights {
  using Element = float;
  RLGEN_INLINE F32x16 even(const Element* p) { return load(p); }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load(p + 16); }
  RLGEN_INLINE int64_t tile_stride(int64_t k) { return k * 16; }
};

template <typename Element>
struct Micro {
  const float* x;  // [rows, k]
  int64_t ldx;
  const Element* w;  // of the first tile
  int64_t tile_stride;
  float* y;  // [rows, columns]
  int64_t ldy;
  int64_t columns;  // 16 a tile, the last may have fewer
  int64_t k;
  const float* bias;     // null before the last piece of k
  bool resume;           // go on from the sums in y
  const char* ahead;     // weights to fetch meanwhile, as many as these; null: none
  int64_t ahead_stride;  // bytes a tile
  int64_t ahead_step;    // bytes a pair of k
};

RLGEN_INLINE int lanes_of_tile(int64_t columns, int tile) {
  const int64_t left = columns - 16 * tile;
  return left < 16 ? int(left) : 16;
}

template <typename W, int kRows, int kTiles>
[[gnu::noinline]] static void micro(const Micro<typename W::Element>& m) {
  F32x16 sums[kRows][kTiles];
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      sums[r][t] =
          m.resume ? load_n(m.y + r * m.ldy + 16 * t, lanes_of_tile(m.columns, t)) : zero();
    }
  }
  const auto step = [&](const F32x16(&w)[kTiles], const float* x) {
    RLGEN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F32x16 xr = broadcast(x[r * m.ldx]);
      RLGEN_UNROLL
      for (int t = 0; t < kTiles; ++t) sums[r][t] = fma(xr, w[t], sums[r][t]);
    }
  };
  const auto even_step = [&](const typename W::Element* w, const float* x) {
    F32x16 row[kTiles];
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) row[t] = W::even(w + t * m.tile_stride);
    step(row, x);
  };
  const typename W::Element* w = m.w;
  const float* x = m.x;
  const char* ahead = m.ahead;
  for (int64_t pair = 0; pair < m.k / 2; ++pair, w += 32, x += 2) {
    if (ahead != nullptr) {
      RLGEN_UNROLL
      for (int t = 0; t < kTiles; ++t) __builtin_prefetch(ahead + t * m.ahead_stride, 0, 2);
      ahead += m.ahead_step;
    }
    even_step(w, x);
    F32x16 row[kTiles];
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) row[t] = W::odd(w + t * m.tile_stride);
    step(row, x + 1);
  }
  if (m.k % 2 != 0) even_step(w, x);
  RLGEN_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const int lanes = lanes_of_tile(m.columns, t);
    const F32x16 bias = m.bias != nullptr ? load_n(m.bias + 16 * t, lanes) : zero();
    RLGEN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F32x16 y = m.bias != nullptr ? sums[r][t] + bias : sums[r][t];
      store_n(y, m.y + r * m.ldy + 16 * t, lanes);
    }
  }
}

// The sums of micro blocks over tiles [0, tiles) for kRows rows, as wide as the registers allow.
template <typename W, int kRows, int kTiles = gemm_tiles(kRows)>
RLGEN_INLINE void micro_of_tiles(Micro<typename W::Element> m, int64_t tiles) {
  for (; tiles >= kTiles; tiles -= kTiles) {
    micro<W, kRows, kTiles>(m);
    m.w += kTiles * m.tile_stride;
    m.y += kTiles * 16;
    m.columns -= kTiles * 16;
    if (m.bias != nullptr) m.bias += kTiles * 16;
    if (m.ahead != nullptr) m.ahead += kTiles * m.ahead_stride;
  }
  if constexpr (kTiles > 1) micro_of_tiles<W, kRows, kTiles / 2>(m, tiles);
}

// The same for `rows` rows in [kLowest, kHighest].
template <typename W, int kLowest, int kHighest, int kTiles>
RLGEN_INLINE void micro_of_rows(const Micro<typename W::Element>& m, int64_t rows, int64_t tiles) {
  if constexpr (kHighest > kLowest) {
    if (rows < kHighest) return micro_of_rows<W, kLowest, kHighest - 1, kTiles>(m, rows, tiles);
  }
  micro_of_tiles<W, kHighest, kTiles == 0 ? gemm_tiles(kHighest) : kTiles>(m, tiles);
}

// A matrix above this size does not stay in the L2 cache of the machines we know, so its tiles are
// fetched ahead. Fetching ahead what is there already costs up to a third.
constexpr int64_t kPrefetchBytes = 1 << 20;

template <typename W>
static void linear_of_few_rows(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  using Element = typename W::Element;
  constexpr int64_t kSize = sizeof(Element);
  const int64_t stride = W::tile_stride(a.w.k);
  const auto* w = reinterpret_cast<const Element*>(a.w.data) + tile_begin * stride;
  const bool fetch_ahead = a.w.n * a.w.k * kSize > kPrefetchBytes;
  const int64_t group = gemm_tiles(int(a.m));
  const Micro<Element> m = {
      .x = a.x,
      .ldx = a.ldx,
      .w = w,
      .tile_stride = stride,
      .y = a.y + tile_begin * 16,
      .ldy = a.ldy,
      .columns = a.w.n - tile_begin * 16,
      .k = a.w.k,
      .bias = a.bias == nullptr ? nullptr : a.bias + tile_begin * 16,
      .resume = false,
      .ahead = fetch_ahead ? reinterpret_cast<const char*>(w + group * stride) : nullptr,
      .ahead_stride = stride * kSize,
      .ahead_step = 32 * kSize,
  };
  micro_of_rows<W, 1, kGemmRows, 0>(m, a.m, tile_end - tile_begin);
}

constexpr int kPanelTiles = gemm_tiles(kGemmRows);
// The panel of two tiles (32 KiB) fits the L1 cache of 48 KiB that goes with AVX-512.
constexpr int64_t kPanelDepth = 256;

// All rows of x, in blocks as equal as can be, against `tiles` tiles at m.w.
RLGEN_INLINE void all_rows(Micro<float> m, int64_t rows, int64_t tiles) {
  const int64_t blocks = (rows + kGemmRows - 1) / kGemmRows;
  int64_t row = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t end = rows * (block + 1) / blocks;
    Micro<float> part = m;
    part.x += row * m.ldx;
    part.y += row * m.ldy;
    micro_of_rows<F32Weights, kGemmRows / 2, kGemmRows, kPanelTiles>(part, end - row, tiles);
    m.ahead = nullptr;
    row = end;
  }
}

template <typename W>
RLGEN_INLINE void widen_tile(const typename W::Element* w, int64_t k, float* panel) {
  int64_t i = 0;
  for (; i + 1 < k; i += 2, w += 32) {
    store(W::even(w), panel + i * 16);
    store(W::odd(w), panel + (i + 1) * 16);
  }
  if (i < k) store(W::even(w), panel + i * 16);
}

// The depth of pieces of k that are as equal as can be: even, at most kPanelDepth.
RLGEN_INLINE int64_t piece_depth(int64_t k) {
  const int64_t pieces = (k + kPanelDepth - 1) / kPanelDepth;
  return (k + 2 * pieces - 1) / (2 * pieces) * 2;
}

// Weights of `depth` steps of k from the tiles at `w`, as float32: where they are, or in `panel`.
template <typename W>
RLGEN_INLINE void set_weights(const typename W::Element* w, int64_t stride, int64_t tiles,
                              int64_t depth, float* panel, Micro<float>* m) {
  if constexpr (sizeof(typename W::Element) == sizeof(float)) {
    m->w = w;
    m->tile_stride = stride;
  } else {
    for (int64_t t = 0; t < tiles; ++t) {
      widen_tile<W>(w + t * stride, depth, panel + t * kPanelDepth * 16);
    }
    m->w = panel;
    m->tile_stride = kPanelDepth * 16;
  }
}

template <typename W>
static void linear_of_many_rows(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  using Element = typename W::Element;
  alignas(64) float panel[kPanelTiles * kPanelDepth * 16];
  const int64_t stride = W::tile_stride(a.w.k);
  const int64_t depth = piece_depth(a.w.k);
  for (int64_t tile = tile_begin; tile < tile_end; tile += kPanelTiles) {
    const int64_t tiles = tile_end - tile < kPanelTiles ? tile_end - tile : kPanelTiles;
    const Element* w = reinterpret_cast<const Element*>(a.w.data) + tile * stride;
    for (int64_t k = 0; k < a.w.k; k += depth) {
      const bool last = k + depth >= a.w.k;
      const int64_t steps = last ? a.w.k - k : depth;
      Micro<float> m = {
          .x = a.x + k,
          .ldx = a.ldx,
          .w = nullptr,
          .tile_stride = 0,
          .y = a.y + tile * 16,
          .ldy = a.ldy,
          .columns = a.w.n - tile * 16,
          .k = steps,
          .bias = last && a.bias != nullptr ? a.bias + tile * 16 : nullptr,
          .resume = k > 0,
          .ahead =
              reinterpret_cast<const char*>(last ? w + kPanelTiles * stride : w + (k + depth) * 16),
          .ahead_stride = stride * int64_t(sizeof(Element)),
          .ahead_step = 32 * int64_t(sizeof(Element)),
      };
      set_weights<W>(w + k * 16, stride, tiles, steps, panel, &m);
      all_rows(m, a.m, tiles);
    }
  }
}

template <typename W>
RLGEN_INLINE void linear_of(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  if (a.m <= 0 || tile_begin >= tile_end) return;
  if (a.m <= kGemmRows) {
    linear_of_few_rows<W>(a, tile_begin, tile_end);
  } else {
    linear_of_many_rows<W>(a, tile_begin, tile_end);
  }
}

[[maybe_unused]] static void linear(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  switch (a.w.dtype) {
    case DType::kBFloat16:
      return linear_of<Bf16Weights>(a, tile_begin, tile_end);
    case DType::kFloat16:
      return linear_of<F16Weights>(a, tile_begin, tile_end);
    default:
      return linear_of<F32Weights>(a, tile_begin, tile_end);
  }
}

}  // namespace rlgen::kernels::RLGEN_ISA
