#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/simd/macros.h"

#if defined(RLGEN_EMULATE_AVX512)
#include "kernels/simd/emulated_amx.h"
#endif

// The tile registers of AMX as the kernels shape them. With two row tiles: 0 and 1 sums of the
// upper one, 2 and 3 of the lower one, 4 and 5 their rows of the first operand, 6 and 7 blocks of
// the second. With one: 0 to 3 sums, 4 rows of the first operand, 5 to 7 blocks of the second.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int kTileRows = 16;
constexpr int kTilePairs = 16;
constexpr int64_t kBlockElements = kTilePairs * 16 * 2;  // of a block of the second operand

// Palette 1: all registers have 64 bytes in a row.
struct TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

#if defined(RLGEN_EMULATE_AVX512)

RLGEN_INLINE void shape_tiles(const TileShapes& shapes) { emulated::shape_tiles(shapes.rows); }
RLGEN_INLINE void release_tiles() {}
template <int kTile>
RLGEN_INLINE void zero_tile() {
  emulated::zero_tile(kTile);
}
template <int kTile>
RLGEN_INLINE void load_tile(const void* first, size_t stride) {
  emulated::load_tile(kTile, first, stride);
}
template <int kTile>
RLGEN_INLINE void store_tile(float* first, size_t stride) {
  emulated::store_tile(kTile, first, stride);
}
template <int kSum, int kRows, int kBlock>
RLGEN_INLINE void add_products() {
  emulated::add_products(kSum, kRows, kBlock);
}

#else

// The intrinsics of g++ 12 tell it of no memory that these instructions read.
RLGEN_INLINE void shape_tiles(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}
RLGEN_INLINE void release_tiles() { asm volatile("tilerelease"); }
template <int kTile>
RLGEN_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// Rows `stride` bytes apart.
template <int kTile>
RLGEN_INLINE void load_tile(const void* first, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(first), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
RLGEN_INLINE void store_tile(float* first, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(first), "r"(stride), "i"(kTile) : "memory");
}
template <int kSum, int kRows, int kBlock>
RLGEN_INLINE void add_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kBlock));
}

#endif

// One row tile of `rows` rows, 1 to 16.
RLGEN_INLINE void shape_one_row_tile(int64_t rows) {
  const auto m = uint8_t(rows);
  const TileShapes shapes = {.rows = {m, m, m, m, m, kTileRows, kTileRows, kTileRows}};
  shape_tiles(shapes);
}

// Two of `upper` and `lower` rows, 1 to 16 each.
RLGEN_INLINE void shape_two_row_tiles(int64_t upper, int64_t lower) {
  const auto u = uint8_t(upper);
  const auto l = uint8_t(lower);
  const TileShapes shapes = {.rows = {u, u, l, l, u, l, kTileRows, kTileRows}};
  shape_tiles(shapes);
}

// Row tiles of the first operand and blocks of the second, in bytes.
struct BlockOperands {
  const char* x;    // of the upper row tile
  size_t x_stride;  // between rows; the lower row tile is 16 of them below
  int64_t x_step;   // to the next 32 of k
  const char* w;    // of the left column tile
  size_t w_stride;  // between lines of a block
  int64_t w_step;   // to the next block
  int64_t w_right;  // to the right column tile
};

template <int R, int C>
RLGEN_INLINE void zero_sums() {
  zero_tile<0>();
  if constexpr (C > 1) zero_tile<1>();
  if constexpr (R > 1) zero_tile<2>();
  if constexpr (R > 1 && C > 1) zero_tile<3>();
}

// R row tiles and C column tiles, 1 or 2 of each, at rows `stride` floats apart.
template <int R, int C>
RLGEN_INLINE void load_sums(const float* sums, int64_t stride) {
  const auto bytes = size_t(stride) * sizeof(float);
  load_tile<0>(sums, bytes);
  if constexpr (C > 1) load_tile<1>(sums + 16, bytes);
  if constexpr (R > 1) load_tile<2>(sums + kTileRows * stride, bytes);
  if constexpr (R > 1 && C > 1) load_tile<3>(sums + kTileRows * stride + 16, bytes);
}

template <int R, int C>
RLGEN_INLINE void store_sums(float* sums, int64_t stride) {
  const auto bytes = size_t(stride) * sizeof(float);
  store_tile<0>(sums, bytes);
  if constexpr (C > 1) store_tile<1>(sums + 16, bytes);
  if constexpr (R > 1) store_tile<2>(sums + kTileRows * stride, bytes);
  if constexpr (R > 1 && C > 1) store_tile<3>(sums + kTileRows * stride + 16, bytes);
}

// How far ahead of the block that is multiplied one is fetched.
constexpr int64_t kBlocksAhead = 4;

// Fetches the 16 lines of a packed block.
RLGEN_INLINE void fetch_block(const char* block) {
  RLGEN_UNROLL
  for (int line = 0; line < kTilePairs; ++line) __builtin_prefetch(block + line * 64, 0, 2);
}

// sums += x . w over `blocks` blocks of k, one after the other.
template <int R, int C, bool kAhead = false>
RLGEN_INLINE void add_blocks(const BlockOperands& o, int64_t blocks) {
  const char* x = o.x;
  const char* w = o.w;
  for (int64_t block = 0; block < blocks; ++block, x += o.x_step, w += o.w_step) {
    if constexpr (kAhead) {
      fetch_block(w + kBlocksAhead * o.w_step);
      if constexpr (C > 1) fetch_block(w + o.w_right + kBlocksAhead * o.w_step);
    }
    load_tile<4>(x, o.x_stride);
    load_tile<6>(w, o.w_stride);
    add_products<0, 4, 6>();
    if constexpr (C > 1) {
      load_tile<7>(w + o.w_right, o.w_stride);
      add_products<1, 4, 7>();
    }
    if constexpr (R > 1) {
      load_tile<5>(x + kTileRows * int64_t(o.x_stride), o.x_stride);
      add_products<2, 5, 6>();
      if constexpr (C > 1) add_products<3, 5, 7>();
    }
  }
}

}  // namespace rlgen::kernels::RLGEN_ISA
