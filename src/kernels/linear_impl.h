#pragma once

#include <stdint.h>

#include "kernels/linear_micro_impl.h"

// The matrix product. Few rows read the packed weights and widen them on the way. Many rows go in
// blocks over one piece of k of some tiles: the first block keeps what it widened in a panel, which
// the others read. Either way each sum walks k from 0 upward.
namespace rlgen::kernels::RLGEN_ISA {

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
      .last = true,
      .bias = a.bias == nullptr ? nullptr : a.bias + tile_begin * 16,
      .before = nullptr,
      .ldb = 0,
      .panel = nullptr,
      .next = {},
  };
  micro_of_rows<W, 1, kGemmRows, 0, Read::kOnce>(m, a.m, tile_end - tile_begin);
}

template <typename Element>
constexpr int64_t kPairBytes = 32 * sizeof(Element);  // of a tile

constexpr int kPanelTiles = gemm_tiles(kGemmRows);
// Tiles that one piece of all rows of x, in the L2 cache by then, passes over.
constexpr int64_t kGroupTiles = 8;

// The share of each of `blocks` blocks with so many pairs of k. Where one instruction does a pair,
// another for each line shows: the first pairs fetch whole lines, the others nothing.
template <typename W>
RLGEN_INLINE void share_next_weights(int64_t pairs, int64_t blocks, NextWeights& next) {
  constexpr int64_t kBytes = kPairBytes<typename W::Element>;
  next.step = W::kDot ? kBytes : (kBytes + blocks - 1) / blocks;
  next.pairs = W::kDot ? (pairs + blocks - 1) / blocks : pairs;
}

// All rows of x, in blocks as equal as can be, against `tiles` tiles at m.w.
template <typename W>
RLGEN_INLINE void all_rows(Micro<typename W::Element> m, int64_t rows, int64_t tiles) {
  using Cached = typename W::Cached;
  constexpr Read kFirst = W::kWidens ? Read::kKeep : Read::kOnce;
  const int64_t blocks = (rows + kGemmRows - 1) / kGemmRows;
  int64_t row = rows / blocks;
  const int64_t fetching = W::kWidens ? blocks : blocks - 1;
  share_next_weights<W>((m.k + 1) / 2, fetching, m.next);
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
      .last = m.last,
      .bias = m.bias,
      .before = m.before,
      .ldb = m.ldb,
      .panel = nullptr,
      .next = m.next,
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
    if (W::kWidens || block > 1) part.next.first += m.next.step * m.next.pairs;
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
  float* sums;        // [rows, kGroupTiles * 16]: of the pieces of k before
  int64_t next_tile;  // of the piece that follows, and its k
  int64_t next_k;
};

// Sums of an unfinished k stand here: rows of y may be a power of two apart, and then they all
// want the same few lines of a cache.
constexpr int64_t kSumStride = kGroupTiles * 16;
constexpr int64_t kSumRows = 256;

template <typename W>
RLGEN_INLINE void add_piece(const LinearArgs& a, const Piece& piece, float* panel) {
  using Element = typename W::Element;
  constexpr auto kSize = int64_t(sizeof(Element));
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
      .last = last,
      .bias = last && a.bias != nullptr ? a.bias + piece.tile * 16 : nullptr,
      .before = piece.k > 0 ? piece.sums : nullptr,
      .ldb = kSumStride,
      .panel = panel,
      .next = {.first = reinterpret_cast<const char*>(a.w.data) +
                        (piece.next_tile * stride + piece.next_k * 16) * kSize,
               .tile_stride = stride * kSize,
               .step = 0,
               .pairs = 0},
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
      const bool row_ends = left <= kPanelTiles;
      const bool ends = row_ends && k + depth >= a.w.k;
      add_piece<W>(a,
                   {.tile = tile,
                    .tiles = left < kPanelTiles ? left : kPanelTiles,
                    .k = k,
                    .steps = steps,
                    .sums = sums + (tile - tile_begin) * 16,
                    .next_tile = ends       ? tile_end
                                 : row_ends ? tile_begin
                                            : tile + kPanelTiles,
                    .next_k = ends       ? 0
                              : row_ends ? k + depth
                                         : k},
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
