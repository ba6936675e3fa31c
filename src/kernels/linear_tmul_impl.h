#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/linear_bf16_impl.h"
#include "kernels/tile_registers.h"

// The matrix product of the bfloat16_amx profile in tile registers. A packed column tile is what
// tdpbf16ps reads as its second operand: 16 pairs of k by 16 columns.
namespace rlgen::kernels::RLGEN_ISA {

// Rows of x are pairs of bfloat16, filled with zeros up to a block.
[[maybe_unused]] static void amx_operand(const float* x, int64_t k, float* out) {
  bf16_operand(x, k, out);
  auto* const pairs = reinterpret_cast<uint16_t*>(out);
  const int64_t written = (k + 1) / 2 * 2;
  memset(pairs + written, 0, size_t(rounded_length(k) - written) * sizeof(uint16_t));
}

// Weights whose last block of k is not whole, as a whole one: [tiles][block].
struct LastBlock {
  alignas(64) uint16_t pairs[4 * kBlockElements];
};

struct ProductTiles {
  const LinearArgs& a;
  int64_t row;
  int64_t rows;  // up to 16 for each row tile
  int64_t tile;
};

RLGEN_INLINE const uint16_t* tile_of(const LinearArgs& a, int64_t tile) {
  return reinterpret_cast<const uint16_t*>(a.w.data) + tile * HalfWeights::tile_stride(a.w.k);
}

// Copies what is there of the last block of `count` tiles.
RLGEN_INLINE void fill_last_block(const LinearArgs& a, int64_t tile, int count, LastBlock& last) {
  const int64_t whole = a.w.k / 32;
  const int64_t left = HalfWeights::tile_stride(a.w.k) - whole * kBlockElements;
  memset(last.pairs, 0, size_t(count) * kBlockElements * sizeof(uint16_t));
  for (int t = 0; t < count; ++t) {
    memcpy(last.pairs + t * kBlockElements, tile_of(a, tile + t) + whole * kBlockElements,
           size_t(left) * sizeof(uint16_t));
  }
}

// What has been summed, with the bias, to y.
template <int C>
RLGEN_INLINE void write_sums(const ProductTiles& p, const float* sums) {
  const LinearArgs& a = p.a;
  for (int t = 0; t < C; ++t) {
    const int64_t column = (p.tile + t) * 16;
    const int lanes = lanes_of_tile(a.w.n - column, 0);
    const F32x16 bias = a.bias == nullptr ? zero() : load_n(a.bias + column, lanes);
    float* y = a.y + p.row * a.ldy + column;
    for (int64_t r = 0; r < p.rows; ++r, y += a.ldy) {
      const F32x16 sum = load(sums + (r * C + t) * 16);
      store_n(a.bias == nullptr ? sum : sum + bias, y, lanes);
    }
  }
}

RLGEN_INLINE BlockOperands operands_of(const ProductTiles& p) {
  constexpr auto kSize = int64_t(sizeof(uint16_t));
  const LinearArgs& a = p.a;
  return {
      .x = reinterpret_cast<const char*>(a.x + p.row * a.ldx),
      .x_stride = size_t(a.ldx) * sizeof(float),
      .x_step = 64,
      .w = reinterpret_cast<const char*>(tile_of(a, p.tile)),
      .w_stride = 64,
      .w_step = kBlockElements * kSize,
      .w_right = HalfWeights::tile_stride(a.w.k) * kSize,
  };
}

// Takes what is left of k and writes the sums of two row tiles and two column tiles, to y itself
// where that is all.
static void finish_2x2(const ProductTiles& p) {
  const LinearArgs& a = p.a;
  if (a.w.k % 32 != 0) {
    LastBlock last;
    fill_last_block(a, p.tile, 2, last);
    BlockOperands operands = operands_of(p);
    operands.x += a.w.k / 32 * operands.x_step;
    operands.w = reinterpret_cast<const char*>(last.pairs);
    operands.w_right = operands.w_step;
    add_blocks<2, 2>(operands, 1);
  }
  float* const y = a.y + p.row * a.ldy + p.tile * 16;
  if (a.bias == nullptr && (p.tile + 2) * 16 <= a.w.n) return store_sums<2, 2>(y, a.ldy);
  alignas(64) float sums[2 * kTileRows * 2 * 16];
  store_sums<2, 2>(sums, 32);
  write_sums<2>(p, sums);
}

// Sums of two row tiles and two column tiles; the weights are fetched ahead, or in a cache.
template <bool kAhead>
[[gnu::noinline]] static void multiply_2x2(const ProductTiles& p) {
  zero_sums<2, 2>();
  add_blocks<2, 2, kAhead>(operands_of(p), p.a.w.k / 32);
  finish_2x2(p);
}

// Sums of one row tile and up to four column tiles, which wait for memory: the weights are read
// once.
template <int C>
[[gnu::noinline]] static void multiply_1xC(const ProductTiles& p) {
  const LinearArgs& a = p.a;
  const int64_t stride = HalfWeights::tile_stride(a.w.k);
  const auto x_stride = size_t(a.ldx) * sizeof(float);
  const float* x = a.x + p.row * a.ldx;
  const uint16_t* w = tile_of(a, p.tile);
  zero_tile<0>();
  if constexpr (C > 1) zero_tile<1>();
  if constexpr (C > 2) zero_tile<2>();
  if constexpr (C > 3) zero_tile<3>();
  const auto step = [&](int64_t k, const uint16_t* first, int64_t apart) {
    load_tile<4>(x + k, x_stride);
    load_tile<5>(first, 64);
    add_products<0, 4, 5>();
    if constexpr (C > 1) {
      load_tile<6>(first + apart, 64);
      add_products<1, 4, 6>();
    }
    if constexpr (C > 2) {
      load_tile<7>(first + 2 * apart, 64);
      add_products<2, 4, 7>();
    }
    if constexpr (C > 3) {
      load_tile<5>(first + 3 * apart, 64);
      add_products<3, 4, 5>();
    }
  };
  const int64_t whole = a.w.k / 32;
  for (int64_t block = 0; block < whole; ++block) {
    const uint16_t* const first = w + block * kBlockElements;
    const uint16_t* const ahead = first + kBlocksAhead * kBlockElements;
    for (int t = 0; t < C; ++t) fetch_block(reinterpret_cast<const char*>(ahead + t * stride));
    step(block * 16, first, stride);
  }
  if (a.w.k % 32 != 0) {
    LastBlock last;
    fill_last_block(a, p.tile, C, last);
    step(whole * 16, last.pairs, kBlockElements);
  }
  alignas(64) float sums[kTileRows * C * 16];
  store_tile<0>(sums, C * 64);
  if constexpr (C > 1) store_tile<1>(sums + 16, C * 64);
  if constexpr (C > 2) store_tile<2>(sums + 32, C * 64);
  if constexpr (C > 3) store_tile<3>(sums + 48, C * 64);
  write_sums<C>(p, sums);
}

// Up to 16 rows.
static void multiply_few(const LinearArgs& a, int64_t row, int64_t tile, int64_t end) {
  const int64_t rows = a.m - row;
  shape_one_row_tile(rows);
  for (; tile + 4 <= end; tile += 4) multiply_1xC<4>({a, row, rows, tile});
  for (; tile + 2 <= end; tile += 2) multiply_1xC<2>({a, row, rows, tile});
  if (tile < end) multiply_1xC<1>({a, row, rows, tile});
}

// All rows against two column tiles: blocks of 32 rows, then what is left of them.
static void multiply_two_tiles(const LinearArgs& a, int64_t tile) {
  constexpr int64_t kRows = 2 * kTileRows;
  int64_t row = 0;
  if (a.m >= kRows) {
    shape_two_row_tiles(kTileRows, kTileRows);
    multiply_2x2<true>({a, 0, kRows, tile});
    for (row = kRows; row + kRows <= a.m; row += kRows) multiply_2x2<false>({a, row, kRows, tile});
  }
  const int64_t left = a.m - row;
  if (left > kTileRows) {
    shape_two_row_tiles(kTileRows, left - kTileRows);
    multiply_2x2<true>({a, row, left, tile});
  } else if (left > 0) {
    multiply_few(a, row, tile, tile + 2);
  }
}

static void multiply_many(const LinearArgs& a, int64_t tile, int64_t end) {
  for (; tile + 1 < end; tile += 2) multiply_two_tiles(a, tile);
  if (tile == end) return;
  for (int64_t row = 0; row < a.m; row += kTileRows) {
    LinearArgs part = a;
    if (part.m > row + kTileRows) part.m = row + kTileRows;
    multiply_few(part, row, tile, end);
  }
}

[[maybe_unused]] static void linear_amx(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  if (a.m <= 0 || tile_begin >= tile_end) return;
  if (a.m <= kTileRows) {
    multiply_few(a, 0, tile_begin, tile_end);
  } else {
    multiply_many(a, tile_begin, tile_end);
  }
  release_tiles();
}

}  // namespace rlgen::kernels::RLGEN_ISA
