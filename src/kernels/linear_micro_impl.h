#pragma once

#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/simd/macros.h"

// The inner loops of the matrix product. A micro block is kRows rows of x times kTiles column tiles
// of w; its sums stay in registers while k runs.
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

// Weights that are wanted soon: while many rows pass over one piece, memory would else stand still.
// Each micro block fetches its share of them.
struct NextWeights {
  const char* first;    // of the first tile; any address, if nothing is to come
  int64_t tile_stride;  // bytes
  int64_t step;         // bytes of a tile for each of the first `pairs` pairs of k
  int64_t pairs;        // all of them, unless W::kDot
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
  bool last;            // the piece of k; else y is in a cache
  const float* bias;    // null before the last piece of k
  const float* before;  // [rows, 16 * tiles]: the sums to go on from; null: from zero
  int64_t ldb;
  float* panel;  // of Read::kKeep: for the widened weights, [tiles][kPanelDepth][16]
  NextWeights next;
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
constexpr bool kFewRegisters = false;
#else
constexpr int64_t kFetchPairs = 16;
constexpr bool kFewRegisters = true;
#endif

template <typename Element>
RLGEN_INLINE void fetch_pair(const Element* w) {
  __builtin_prefetch(w, 0, 2);
  if constexpr (sizeof(Element) == sizeof(float)) __builtin_prefetch(w + 16, 0, 2);
}

// Lines of y that are written when k has run. Stores wait for their lines one after the other, and
// those of a large y come from memory: the head of 16 rows was 2 to 5 % slower on a Zen 4.
template <int kRows, int kTiles>
RLGEN_INLINE void fetch_output(const float* y, int64_t ldy) {
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) __builtin_prefetch(y + r * ldy + 16 * t, 1, 3);
  }
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

// Rows of x that one pointer reaches: an address has room for the next two. With one for each of
// twelve rows, or one and the distances of eleven, g++ runs out of registers and fetches some out
// of vector registers, on ports that the multiply-add wants: with this and whole lines of the next
// weights, products of 64 rows of bfloat16 take 4 to 7 % less on a Zen 4.
constexpr int kRowsOfPointer = 3;

// The rows of x at one step of k.
template <int kRows>
struct RowsOfX {
  const float* first[(kRows + kRowsOfPointer - 1) / kRowsOfPointer];
  int64_t ldx;
};

template <int kRows>
RLGEN_INLINE RowsOfX<kRows> rows_of_x(const float* x, int64_t ldx) {
  RowsOfX<kRows> rows;
  rows.ldx = ldx;
  RLGEN_UNROLL
  for (int r = 0; r < kRows; r += kRowsOfPointer) rows.first[r / kRowsOfPointer] = x + r * ldx;
  return rows;
}

template <int kRows>
RLGEN_INLINE const float* row_of_x(const RowsOfX<kRows>& x, int r) {
  return x.first[r / kRowsOfPointer] + r % kRowsOfPointer * x.ldx;
}

// Compilers are not to know that the pointers keep their distances.
template <int kRows>
RLGEN_INLINE void advance(RowsOfX<kRows>& x, int64_t floats) {
  RLGEN_UNROLL
  for (int r = 0; r < kRows; r += kRowsOfPointer) {
    x.first[r / kRowsOfPointer] += floats;
    asm("" : "+r"(x.first[r / kRowsOfPointer]));
  }
}

// One step of k, the odd or the even one of a pair: `w` of the first tile, x of the first row. The
// weights, widened, also go to `panel` with kKeep. Where registers are few, weights that both steps
// of a pair are made from are loaded for each of them, and sums are told to stay: else compilers
// put some of them aside in each step, and six rows ran at 40 to 60 % of the arithmetic on a Zen 3.
template <typename W, bool kOdd, bool kKeep, int kRows, int kTiles>
RLGEN_INLINE void add_step(const Micro<typename W::Element>& m, const typename W::Element* w,
                           const RowsOfX<kRows>& x, float* panel, F32x16 (&sums)[kRows][kTiles]) {
  F32x16 row[kTiles];
  RLGEN_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const typename W::Element* tile = w + t * m.tile_stride;
    if constexpr (kOdd && W::kWidens && kFewRegisters) asm("" : "+r"(tile));
    row[t] = kOdd ? W::odd(tile) : W::even(tile);
    if constexpr (kKeep) store(row[t], panel + t * kPanelDepth * 16);
  }
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const F32x16 xr = broadcast(row_of_x(x, r)[kOdd ? 1 : 0]);
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      sums[r][t] = fma(xr, row[t], sums[r][t]);
      if constexpr (W::kWidens) stay_in_register(sums[r][t]);
    }
  }
}

// Both steps of a pair in one instruction.
template <typename W, int kRows, int kTiles>
RLGEN_INLINE void add_pair(const Micro<typename W::Element>& m, const typename W::Element* w,
                           const RowsOfX<kRows>& x, F32x16 (&sums)[kRows][kTiles]) {
  typename W::Pairs row[kTiles];
  RLGEN_UNROLL
  for (int t = 0; t < kTiles; ++t) row[t] = W::pairs(w + t * m.tile_stride);
  RLGEN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const auto xr = W::broadcast(row_of_x(x, r));
    RLGEN_UNROLL
    for (int t = 0; t < kTiles; ++t) sums[r][t] = W::dot(xr, row[t], sums[r][t]);
  }
}

template <typename W, int kRows, int kTiles, Read kRead>
[[gnu::noinline]] static void micro(const Micro<typename W::Element>& given) {
  constexpr bool kKeep = kRead == Read::kKeep;
  const Micro<typename W::Element> m = given;  // which no store can reach
  F32x16 sums[kRows][kTiles];
  if (m.last) fetch_output<kRows, kTiles>(m.y, m.ldy);
  begin_sums(m, sums);
  const typename W::Element* w = m.w;
  const typename W::Element* ahead = w + kFetchPairs * 32;
  const char* next = m.next.first;
  RowsOfX<kRows> x = rows_of_x<kRows>(m.x, m.ldx);
  const int64_t pairs = m.k / 2;
  for (int64_t pair = 0; pair < pairs; ++pair, w += 32, ahead += 32) {
    if constexpr (kRead != Read::kCached) {
      if (pair + kFetchPairs == pairs) ahead = m.w + kTiles * m.tile_stride;
      RLGEN_UNROLL
      for (int t = 0; t < kTiles; ++t) fetch_pair(ahead + t * m.tile_stride);
    }
    if constexpr (kRead != Read::kOnce) {
      if (!W::kDot || pair < m.next.pairs) {
        RLGEN_UNROLL
        for (int t = 0; t < kTiles; ++t) __builtin_prefetch(next + t * m.next.tile_stride, 0, 2);
        next += m.next.step;
      }
    }
    if constexpr (W::kDot) {
      add_pair<W>(m, w, x, sums);
      advance(x, 1);
    } else {
      float* const panel = kKeep ? m.panel + pair * 32 : nullptr;
      add_step<W, false, kKeep>(m, w, x, panel, sums);
      add_step<W, true, kKeep>(m, w, x, kKeep ? panel + 16 : nullptr, sums);
      advance(x, 2);
    }
  }
  if constexpr (!W::kDot) {
    if (m.k % 2 != 0) {
      add_step<W, false, kKeep>(m, w, x, kKeep ? m.panel + pairs * 32 : nullptr, sums);
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
    m.next.first += kTiles * m.next.tile_stride;
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

}  // namespace rlgen::kernels::RLGEN_ISA
