#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/attention_keys_impl.h"
#include "kernels/attention_tiles_impl.h"
#include "kernels/exp_impl.h"

// Attention of a group of rows over one chunk of keys: scores, weights, weighted values.
namespace rlgen::kernels::RLGEN_ISA {

RLGEN_INLINE int larger(int a, int b) { return a > b ? a : b; }
RLGEN_INLINE int smaller(int a, int b) { return a < b ? a : b; }

// Steps of the values of a chunk that each row of a group takes: from .. to - 1.
struct RowSteps {
  const int* from;
  const int* to;
};

// Steps begin .. end - 1 of the chunk for `rows` rows from `row` on: what all of them take
// together, what only some take before and after it row by row.
template <typename S>
static void add_value_block(const ChunkPart& part, TilesOfChunk values, RowSteps steps, int row,
                            int rows, int begin, int end, int64_t value_dim) {
  int from = begin;
  int to = end;
  for (int r = row; r < row + rows; ++r) {
    from = larger(from, steps.from[r]);
    to = smaller(to, steps.to[r]);
  }
  if (from > to) from = to = end;
  for (int r = row; r < row + rows; ++r) {
    add_all_values<S, 1>(part, values, r, larger(begin, steps.from[r]), smaller(from, steps.to[r]),
                         value_dim);
  }
  with_rows(rows, [&]<int R>() { add_all_values<S, R>(part, values, row, from, to, value_dim); });
  for (int r = row; r < row + rows; ++r) {
    add_all_values<S, 1>(part, values, r, larger(to, steps.from[r]), smaller(end, steps.to[r]),
                         value_dim);
  }
}

// Tiles begin .. end - 1 for all rows of the group.
template <typename S>
static void add_value_blocks(const RowGroup& group, const ChunkPart& part, TilesOfChunk values,
                             RowSteps steps, int begin, int end, int64_t value_dim) {
  for (int row = 0; row < group.rows;) {
    const int rows = rows_together(group.rows - row);
    add_value_block<S>(part, values, steps, row, rows, begin * S::kTileSteps, end * S::kTileSteps,
                       value_dim);
    row += rows;
  }
}

// Conversion in the inner loop costs half as much again as its multiply-adds; where several blocks
// of rows read a tile it is converted once for all.
template <DType kType>
RLGEN_INLINE bool widens(const RowGroup& group) {
  return kType != DType::kFloat32 && group.rows > kBlockRows;
}

template <DType kType>
static void add_group_values(const RowGroup& group, const ChunkPart& part, int64_t value_dim) {
  memset(part.value, 0, size_t(group.rows) * size_t(value_dim) * sizeof(float));
  const RowSteps steps = {part.from, part.to};
  for (int tile = part.first_tile; tile < part.end_tile; tile += kValueTiles) {
    const int end = smaller(tile + kValueTiles, part.end_tile);
    if (widens<kType>(group)) {
      const std::byte* wide[kChunkTiles];
      for (int t = tile; t < end; ++t) {
        float* to = part.widened + (t - tile) * kTileKeys * value_dim;
        wide[t] = widen<kType>(part.values[t], kTileKeys * value_dim, to);
      }
      add_value_blocks<PlainSteps<DType::kFloat32>>(group, part, {wide, kNoTiles}, steps, tile, end,
                                                    value_dim);
    } else {
      add_value_blocks<PlainSteps<kType>>(group, part, {part.values, part.after_values}, steps,
                                          tile, end, value_dim);
    }
  }
}

// Scores of tiles begin .. end - 1, at most kBlockVectors, for `rows` rows from `row` on; tiles
// that none of these rows sees are left out.
template <typename S>
static void score_block(const RowGroup& group, const ChunkPart& part, TilesOfChunk keys, int row,
                        int rows, int begin, int end, int64_t steps, float scale) {
  int from = kChunkKeys;
  int to = 0;
  for (int r = row; r < row + rows; ++r) {
    if (part.from[r] >= part.to[r]) continue;
    from = smaller(from, part.from[r]);
    to = larger(to, part.to[r]);
  }
  begin = larger(begin, from / kTileKeys);
  end = smaller(end, (to + kTileKeys - 1) / kTileKeys);
  float* score = part.weight + int64_t(row) * kChunkKeys;
  with_rows(rows, [&]<int R>() {
    if (end - begin == kBlockVectors) {
      score_tiles<S, R, kBlockVectors>(group.q + row, {keys.tiles + begin, keys.after + begin},
                                       steps, scale, score + begin * kTileKeys);
      return;
    }
    for (int t = begin; t < end; ++t) {
      score_tiles<S, R, 1>(group.q + row, {keys.tiles + t, keys.after + t}, steps, scale,
                           score + t * kTileKeys);
    }
  });
}

template <typename S>
static void score_blocks(const RowGroup& group, const ChunkPart& part, TilesOfChunk keys, int begin,
                         int end, int64_t steps, float scale) {
  for (int row = 0; row < group.rows;) {
    const int rows = rows_together(group.rows - row);
    score_block<S>(group, part, keys, row, rows, begin, end, steps, scale);
    row += rows;
  }
}

template <DType kType>
static void score_group(const RowGroup& group, const ChunkPart& part, int64_t head_dim,
                        float scale) {
  for (int tile = part.first_tile; tile < part.end_tile; tile += kBlockVectors) {
    const int end = smaller(tile + kBlockVectors, part.end_tile);
    if (widens<kType>(group)) {
      const std::byte* wide[kChunkTiles];
      for (int t = tile; t < end; ++t) {
        float* to = part.widened + (t - tile) * kTileKeys * head_dim;
        wide[t] = widen<kType>(part.keys[t], kTileKeys * head_dim, to);
      }
      score_blocks<PlainSteps<DType::kFloat32>>(group, part, {wide, kNoTiles}, tile, end, head_dim,
                                                scale);
    } else {
      score_blocks<PlainSteps<kType>>(group, part, {part.keys, part.after_keys}, tile, end,
                                      head_dim, scale);
    }
  }
}

// The lanes of tile `tile` that lie in from .. to - 1 keep their value, the others get `fill`.
RLGEN_INLINE F32x16 seen(F32x16 v, int tile, int from, int to, F32x16 fill) {
  const int skip = larger(from - tile * kTileKeys, 0);
  const int stop = smaller(to - tile * kTileKeys, kTileKeys);
  if (skip == 0 && stop == kTileKeys) return v;
  const F32x16 early = select(first_lanes(stop), v, fill);
  return skip == 0 ? early : select(first_lanes(skip), fill, early);
}

// Calls fn(tile, partly) for tiles first .. end - 1 in order; the first and the last may be seen
// partly.
template <typename F>
RLGEN_INLINE void for_seen_tiles(int first, int end, F fn) {
  fn(first, true);
  for (int tile = first + 1; tile < end - 1; ++tile) fn(tile, false);
  if (end - 1 > first) fn(end - 1, true);
}

// Turns the scores of one row into weights and notes their maximum and sum. P::store_weights puts
// away those of a tile. Scores that P has not scaled are scaled here, their maximum once for all:
// the order of numbers outlasts a product with a positive one.
template <typename P>
static void weigh_row(ChunkPart& part, int row, float scale) {
  const int from = part.from[row];
  const int to = part.to[row];
  const int first = from / kTileKeys;
  const int end = (to + kTileKeys - 1) / kTileKeys;
  float* weight = part.weight + int64_t(row) * kChunkKeys;
  const F32x16 lowest = broadcast(-__builtin_inff());
  F32x16 best = lowest;
  for_seen_tiles(first, end, [&](int tile, bool partly) {
    const F32x16 score = load(weight + tile * kTileKeys);
    best = max(partly ? seen(score, tile, from, to, lowest) : score, best);
  });
  const float largest = P::kScales ? reduce_max(best) : reduce_max(best) * scale;
  F32x16 sum = zero();
  for_seen_tiles(first, end, [&](int tile, bool partly) {
    const F32x16 given = load(weight + tile * kTileKeys);
    const F32x16 score = P::kScales ? given : given * broadcast(scale);
    const F32x16 e = exp_of_difference(score - broadcast(largest));
    const F32x16 w = partly ? seen(e, tile, from, to, zero()) : e;
    P::store_weights(w, weight, tile);
    sum = sum + w;
  });
  part.max[row] = largest;
  part.sum[row] = reduce_sum(sum);
}

// Products in float32, of keys and values of the cache's type.
template <DType kType>
struct PlainProducts {
  static constexpr bool kScales = true;
  RLGEN_INLINE void take_queries(const AttentionArgs&, RowGroup&, const ChunkPart&) {}
  static void score(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    score_group<kType>(group, part, args.kv.layout.head_dim, args.scale);
  }
  RLGEN_INLINE void store_weights(F32x16 w, float* weight, int tile) {
    store(w, weight + tile * kTileKeys);
  }
  static void add_values(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    const KvLayout& layout = args.kv.layout;
    if (layout.values_in_keys) return add_values_in_keys<kType>(group, part, layout.value_dim);
    add_group_values<kType>(group, part, layout.value_dim);
  }
};

// Sums of one chunk alone, for every row of the group.
template <typename P>
static void attend_chunk(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
  P::score(args, group, part);
  for (int row = 0; row < group.rows; ++row) {
    if (part.from[row] < part.to[row]) weigh_row<P>(part, row, args.scale);
  }
  P::add_values(args, group, part);
}

}  // namespace rlgen::kernels::RLGEN_ISA
