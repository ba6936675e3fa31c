#pragma once

#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/simd/macros.h"

// The matrix product. A micro block is kRows rows of x times kTiles column tiles of w; its sums
// stay in registers while k runs. Few rows read the packed weights and widen them on the way. Many
// rows go in blocks over one piece of k of some tiles: the first block keeps what it widened in a
// panel, which the others read. Either way each sum walks k from 0 upward.
namespace rlgen::kernels::RLGEN_ISA {

struct F32Weights;

// How each stored type reads. All hold 32 elements for each pair of k: [16][2] or [2][16].
// `Cached` is how blocks of rows after the first read them; one that widens keeps a panel for that.
struct HalfWeights {
  using Element = uint16_t;
  using Cached = F32Weights;
  static constexpr bool kWidens = true;
  static constexpr bool kDot = false;
  RLGEN_INLINE int64_t tile_stride(int64_t k) { return (k + 1) / 2 * 32; }
};

struct Bf16Weights : HalfWeights {
  RLGEN_INLINE F32x16 even(const Element* p) { return load_bf16_pair(p).even; }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load_bf16_pair(p).odd; }
};

struct F16Weights : HalfWeights {
  RLGEN_INLINE F32x16 even(const Element* p) { return load_f16_pair(p).even; }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load_f16_pair(p).odd; }
};

struct F32Weights {
  using Element = float;
  using Cached = F32Weights;
  static constexpr bool kWidens = false;
  static constexpr bool kDot = false;
  RLGEN_INLINE F32x16 even(const Element* p) { return load(p); }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load(p + 16); }
  RLGEN_INLINE int64_t tile_stride(int64_t k) { return k * 16; }
};

template <typename Element>
struct Micro {
  const float* x;  // [rows, k], or [rows, k / 2] pairs where W::kDot
  int64_t ldx;
  const Element* w;  // of the first tile
  int64_t tile_stride;
  float* y;  // [rows, columns]
  int64_t ldy;
  int64_t columns;  // 16 a tile, the last may have fewer
  int64_t k;
  const float* bias;    // null before the last piece of k
  const float* before;  // [rows, 16 * tiles]: the sums to go on from; null: from zero
  int64_t ldb;
  float* panel;  // of Read::kKeep: for the widened weights, [tiles][kPanelDepth][16]
};

// How a micro block reads its weights.
enum class Read {
  kOnce,    // from memory, fetched ahead
  kKeep,    // likewise, and keeps them widened in the panel
  kCached,  // from a cache
};

// How far ahead: a cache line for each of so many pairs of k (two lines of float32). With 16, eight
// rows ran at 60 % of the arithmetic on a Zen 4, which is faster than memory is early; a whole tile
// ahead made one row four times slower on a Zen 1.
#if defined(__AVX512F__)
constexpr int64_t kFetchPairs = 64;
#else
constexpr int64_t kFetchPairs = 16;
#endif

template <typename Element>
RLGEN_INLINE void fetch_pair(const Element* w) {
  __builtin_prefetch(w, 0, 2);
  if constexpr (sizeof(Element) == sizeof(float)) __builtin_prefetch(w + 16, 0, 2);
}

RLGEN_INLINE int lanes_of_tile(int64_t columns, int tile) {
  const int64_t left = columns - 16 * tile;
  return left < 16 ? int(left) : 16;
}

// Steps of k that a panel holds: those of two tiles are 32 KiB and fit the L1 cache of 48 KiB that
// goes with AVX-512, those of one tile that of 32 KiB.
constexpr int64_t kPanelDepth = 256;

// The sums of a block as they stand before its steps of k.
template <typename Element, int kRows, int kTiles>
RLGEN_INLINE void begin_sums(const Micro<Element>& m, F32x16 (&sums)[kRows][kTiles]) {
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      sums[r][t] = m.before == nullptr ? zero() : load(m.before + r * m.ldb + 16 * t);
    }
  }
}

template <typename Element, int kRows, int kTiles>
RLGEN_INLINE void add_bias(const Micro<Element>& m, F32x16 (&sums)[kRows][kTiles]) {
  RLGEN_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const F32x16 bias = load_n(m.bias + 16 * t, lanes_of_tile(m.columns, t));
    RLGEN_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][t] = sums[r][t] + bias;
  }
}

// A store of some lanes takes many times as long as one of all where there is no AVX-512.
template <typename Element, int kRows, int kTiles>
RLGEN_INLINE void end_sums(const Micro<Element>& m, F32x16 (&sums)[kRows][kTiles]) {
  const bool whole = m.columns >= 16 * kTiles;
  if (m.bias != nullptr) add_bias(m, sums);
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      float* y = m.y + r * m.ldy + 16 * t;
      if (whole) {
        store(sums[r][t], y);
      } else {
        store_n(sums[r][t], y, lanes_of_tile(m.columns, t));
      }
    }
  }
}

// One step of k, the odd or the even one of a pair: `w` of the first tile, x of the first row. The
// weights, widened, also go to `panel` where that is not null.
template <typename W, bool kOdd, int kRows, int kTiles>
RLGEN_INLINE void add_step(const Micro<typename W::Element>& m, const typename W::Element* w,
                           const float* x, float* panel, F32x16 (&sums)[kRows][kTiles]) {
  F32x16 row[kTiles];
  RLGEN_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const typename W::Element* tile = w + t * m.tile_stride;
    row[t] = kOdd ? W::odd(tile) : W::even(tile);
    if (panel != nullptr) store(row[t], panel + t * kPanelDepth * 16);
  }
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const F32x16 xr = broadcast(x[r * m.ldx]);
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) sums[r][t] = fma(xr, row[t], sums[r][t]);
  }
}

// Both steps of a pair in one instruction.
template <typename W, int kRows, int kTiles>
RLGEN_INLINE void add_pair(const Micro<typename W::Element>& m, const typename W::Element* w,
                           const float* x, F32x16 (&sums)[kRows][kTiles]) {
  typename W::Pairs row[kTiles];
  RLGEN_UNROLL
  for (int t = 0; t < kTiles; ++t) row[t] = W::pairs(w + t * m.tile_stride);
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const auto xr = W::broadcast(x + r * m.ldx);
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) sums[r][t] = W::dot(xr, row[t], sums[r][t]);
  }
}

template <typename W, int kRows, int kTiles, Read kRead>
[[gnu::noinline]] static void micro(const Micro<typename W::Element>& m) {
  constexpr bool kKeep = kRead == Read::kKeep;
  F32x16 sums[kRows][kTiles];
  begin_sums(m, sums);
  const typename W::Element* w = m.w;
  const typename W::Element* ahead = w + kFetchPairs * 32;
  const float* x = m.x;
  const int64_t pairs = m.k / 2;
  for (int64_t pair = 0; pair < pairs; ++pair, w += 32, ahead += 32) {
    if constexpr (kRead != Read::kCached) {
      if (pair + kFetchPairs == pairs) ahead = m.w + kTiles * m.tile_stride;
      RLGEN_UNROLL
      for (int t = 0; t < kTiles; ++t) fetch_pair(ahead + t * m.tile_stride);
    }
    if constexpr (W::kDot) {
      add_pair<W>(m, w, x + pair, sums);
    } else {
      float* const panel = kKeep ? m.panel + pair * 32 : nullptr;
      add_step<W, false>(m, w, x + 2 * pair, panel, sums);
      add_step<W, true>(m, w, x + 2 * pair + 1, kKeep ? panel + 16 : nullptr, sums);
    }
  }
  if constexpr (!W::kDot) {
    if (m.k % 2 != 0) {
      add_step<W, false>(m, w, x + 2 * pairs, kKeep ? m.panel + pairs * 32 : nullptr, sums);
    }
  }
  end_sums(m, sums);
}

// The sums of micro blocks over tiles [0, tiles) for kRows rows, as wide as the registers allow.
template <typename W, int kRows, int kTiles, Read kRead>
RLGEN_INLINE void micro_of_tiles(Micro<typename W::Element> m, int64_t tiles) {
  for (; tiles >= kTiles; tiles -= kTiles) {
    micro<W, kRows, kTiles, kRead>(m);
    m.w += kTiles * m.tile_stride;
    m.y += kTiles * 16;
    m.columns -= kTiles * 16;
    if (m.bias != nullptr) m.bias += kTiles * 16;
    if (m.before != nullptr) m.before += kTiles * 16;
    if constexpr (kRead == Read::kKeep) m.panel += kTiles * kPanelDepth * 16;
  }
  if constexpr (kTiles > 1) micro_of_tiles<W, kRows, kTiles / 2, kRead>(m, tiles);
}

// The same for `rows` rows in [kLowest, kHighest].
template <typename W, int kLowest, int kHighest, int kTiles, Read kRead>
RLGEN_INLINE void micro_of_rows(const Micro<typename W::Element>& m, int64_t rows, int64_t tiles) {
  if constexpr (kHighest > kLowest) {
    if (rows < kHighest) {
      return micro_of_rows<W, kLowest, kHighest - 1, kTiles, kRead>(m, rows, tiles);
    }
  }
  micro_of_tiles<W, kHighest, kTiles == 0 ? gemm_tiles(kHighest) : kTiles, kRead>(m, tiles);
}

template <typename W>
static void linear_of_few_rows(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  using Element = typename W::Element;
  const int64_t stride = W::tile_stride(a.w.k);
  const Micro<Element> m = {
      .x = a.x,
      .ldx = a.ldx,
      .w = reinterpret_cast<const Element*>(a.w.data) + tile_begin * stride,
      .tile_stride = stride,
      .y = a.y + tile_begin * 16,
      .ldy = a.ldy,
      .columns = a.w.n - tile_begin * 16,
      .k = a.w.k,
      .bias = a.bias == nullptr ? nullptr : a.bias + tile_begin * 16,
      .before = nullptr,
      .ldb = 0,
      .panel = nullptr,
  };
  micro_of_rows<W, 1, kGemmRows, 0, Read::kOnce>(m, a.m, tile_end - tile_begin);
}

constexpr int kPanelTiles = gemm_tiles(kGemmRows);
// Tiles that one piece of all rows of x, in the L2 cache by then, passes over.
constexpr int64_t kGroupTiles = 8;

// All rows of x, in blocks as equal as can be, against `tiles` tiles at m.w.
template <typename W>
RLGEN_INLINE void all_rows(const Micro<typename W::Element>& m, int64_t rows, int64_t tiles) {
  using Cached = typename W::Cached;
  constexpr Read kFirst = W::kWidens ? Read::kKeep : Read::kOnce;
  const int64_t blocks = (rows + kGemmRows - 1) / kGemmRows;
  int64_t row = rows / blocks;
  micro_of_rows<W, kGemmRows / 2, kGemmRows, kPanelTiles, kFirst>(m, row, tiles);
  Micro<typename Cached::Element> part = {
      .x = m.x,
      .ldx = m.ldx,
      .w = nullptr,
      .tile_stride = 0,
      .y = m.y,
      .ldy = m.ldy,
      .columns = m.columns,
      .k = m.k,
      .bias = m.bias,
      .before = m.before,
      .ldb = m.ldb,
      .panel = nullptr,
  };
  if constexpr (W::kWidens) {
    part.w = m.panel;
    part.tile_stride = kPanelDepth * 16;
  } else {
    part.w = m.w;
    part.tile_stride = m.tile_stride;
  }
  for (int64_t block = 1; block < blocks; ++block) {
    const int64_t end = rows * (block + 1) / blocks;
    part.x = m.x + row * m.ldx;
    part.y = m.y + row * m.ldy;
    if (m.before != nullptr) part.before = m.before + row * m.ldb;
    micro_of_rows<Cached, kGemmRows / 2, kGemmRows, kPanelTiles, Read::kCached>(part, end - row,
                                                                                tiles);
    row = end;
  }
}

// The depth of pieces of k that are as equal as can be: even, at most `most`.
RLGEN_INLINE int64_t piece_depth(int64_t k, int64_t most) {
  const int64_t pieces = (k + most - 1) / most;
  return (k + 2 * pieces - 1) / (2 * pieces) * 2;
}

// Steps [k, k + steps) of all rows against tiles [tile, tile + tiles), at most kPanelTiles.
struct Piece {
  int64_t tile;
  int64_t tiles;
  int64_t k;
  int64_t steps;
  float* sums;  // [rows, kGroupTiles * 16]: of the pieces of k before
};

// Sums of an unfinished k stand here: rows of y may be a power of two apart, and then they all
// want the same few lines of a cache.
constexpr int64_t kSumStride = kGroupTiles * 16;
constexpr int64_t kSumRows = 256;

template <typename W>
RLGEN_INLINE void add_piece(const LinearArgs& a, const Piece& piece, float* panel) {
  using Element = typename W::Element;
  const int64_t stride = W::tile_stride(a.w.k);
  const bool last = piece.k + piece.steps == a.w.k;
  const Micro<Element> m = {
      .x = a.x + (W::kDot ? piece.k / 2 : piece.k),
      .ldx = a.ldx,
      .w = reinterpret_cast<const Element*>(a.w.data) + piece.tile * stride + piece.k * 16,
      .tile_stride = stride,
      .y = last ? a.y + piece.tile * 16 : piece.sums,
      .ldy = last ? a.ldy : kSumStride,
      .columns = last ? a.w.n - piece.tile * 16 : piece.tiles * 16,
      .k = piece.steps,
      .bias = last && a.bias != nullptr ? a.bias + piece.tile * 16 : nullptr,
      .before = piece.k > 0 ? piece.sums : nullptr,
      .ldb = kSumStride,
      .panel = panel,
  };
  all_rows<W>(m, a.m, piece.tiles);
}

// At most kSumRows rows.
template <typename W>
RLGEN_INLINE void add_group(const LinearArgs& a, int64_t tile_begin, int64_t tile_end, float* panel,
                            float* sums) {
  // Weights that are not widened take half the room.
  const int64_t depth = piece_depth(a.w.k, W::kDot ? 2 * kPanelDepth : kPanelDepth);
  for (int64_t k = 0; k < a.w.k; k += depth) {
    const int64_t steps = a.w.k - k < depth ? a.w.k - k : depth;
    for (int64_t tile = tile_begin; tile < tile_end; tile += kPanelTiles) {
      const int64_t left = tile_end - tile;
      add_piece<W>(a,
                   {.tile = tile,
                    .tiles = left < kPanelTiles ? left : kPanelTiles,
                    .k = k,
                    .steps = steps,
                    .sums = sums + (tile - tile_begin) * 16},
                   panel);
    }
  }
}

template <typename W>
static void linear_of_many_rows(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  alignas(64) float panel[kPanelTiles * kPanelDepth * 16];
  alignas(64) float sums[kSumRows * kSumStride];
  const int64_t blocks = (a.m + kSumRows - 1) / kSumRows;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t row = a.m * block / blocks;
    LinearArgs rows = a;
    rows.x += row * a.ldx;
    rows.y += row * a.ldy;
    rows.m = a.m * (block + 1) / blocks - row;
    for (int64_t group = tile_begin; group < tile_end; group += kGroupTiles) {
      const int64_t end = group + kGroupTiles < tile_end ? group + kGroupTiles : tile_end;
      add_group<W>(rows, group, end, panel, sums);
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
