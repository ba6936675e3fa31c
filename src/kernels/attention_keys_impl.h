#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/attention_tiles_impl.h"

// Values that are the first elements of keys. A tile has an element of 16 keys side by side and a
// key's elements far apart, so here the lanes are 16 query rows: for each element one vector of
// sums, which meets the keys one after the other. The sums of a row are those of add_values.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int kLaneRows = 16;
// Elements that go together: as many sums as two multiply-adds of latency 4 keep busy.
#if defined(__AVX512F__)
constexpr int kLaneElements = 8;
#else
constexpr int kLaneElements = 4;
#endif

// to[c][r] = from[r][c] for four rows and four columns.
RLGEN_INLINE void turn_four(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  using Four = float __attribute__((vector_size(16)));
  Four row[4];
  RLGEN_UNROLL
  for (int i = 0; i < 4; ++i) memcpy(&row[i], from + i * from_stride, sizeof(Four));
  const Four low = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Four low_end = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Four high = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Four high_end = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const Four column[4] = {__builtin_shufflevector(low, high, 0, 1, 4, 5),
                          __builtin_shufflevector(low, high, 2, 3, 6, 7),
                          __builtin_shufflevector(low_end, high_end, 0, 1, 4, 5),
                          __builtin_shufflevector(low_end, high_end, 2, 3, 6, 7)};
  RLGEN_UNROLL
  for (int i = 0; i < 4; ++i) memcpy(to + i * to_stride, &column[i], sizeof(Four));
}

// to[c][r] = from[r][c] for all rows and columns.
static void turn(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
                 int64_t to_stride) {
  for (int64_t r = 0; r < rows; r += 4) {
    const bool whole = r + 4 <= rows;
    int64_t c = 0;
    for (; whole && c + 4 <= columns; c += 4) {
      turn_four(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + 4 && i < rows; ++i) {
        to[c * to_stride + i] = from[i * from_stride + c];
      }
    }
  }
}

// Some rows of a group, a lane each, and the keys of the chunk that they see.
struct LaneRows {
  int rows;  // up to kLaneRows
  int from;  // some row sees keys from .. to - 1
  int to;
  int all_from;  // all see keys all_from .. all_to - 1
  int all_to;
  F32x16 first;  // of each lane, as numbers; none where there is no row
  F32x16 end;
};

static LaneRows lane_rows(const RowGroup& group, const ChunkPart& part, int row) {
  const int left = group.rows - row;
  LaneRows lanes = {.rows = left < kLaneRows ? left : kLaneRows,
                    .from = kChunkKeys,
                    .to = 0,
                    .all_from = 0,
                    .all_to = kChunkKeys,
                    .first = zero(),
                    .end = zero()};
  float first[kLaneRows] = {};
  float end[kLaneRows] = {};
  for (int r = 0; r < lanes.rows; ++r) {
    const int from = part.from[row + r];
    const int to = part.to[row + r];
    first[r] = float(from);
    end[r] = float(to);
    if (from > lanes.all_from) lanes.all_from = from;
    if (to < lanes.all_to) lanes.all_to = to;
    if (from < to && from < lanes.from) lanes.from = from;
    if (from < to && to > lanes.to) lanes.to = to;
  }
  lanes.first = load(first);
  lanes.end = load(end);
  return lanes;
}

// sum[e] += weights[k] * keys[e][k] for the 16 keys of a tile in order, which begin at key `begin`
// of the chunk; with `kMasked` in lanes alone whose rows see the key.
template <int E, bool kMasked>
RLGEN_INLINE void add_keys(const LaneRows& lanes, int begin, const float* weights,
                           const float* keys, F32x16 (&sum)[E]) {
  for (int k = 0; k < kTileKeys; ++k) {
    const F32x16 weight = load(weights + k * kLaneRows);
    const F32x16 key = broadcast(float(begin + k));
    const Mask16 seen = less_equal(lanes.first, key) & less(key, lanes.end);
    RLGEN_UNROLL
    for (int e = 0; e < E; ++e) {
      const F32x16 next = fma(weight, broadcast(keys[e * kTileKeys + k]), sum[e]);
      sum[e] = kMasked ? select(seen, next, sum[e]) : next;
    }
  }
}

// Elements [element, element + E) of the values of a chunk, summed for 16 rows: [E][16].
template <DType kType, int E>
static void sum_elements(const LaneRows& lanes, const ChunkPart& part, const float* weights,
                         int64_t element, float* sums) {
  F32x16 sum[E];
  RLGEN_UNROLL
  for (int e = 0; e < E; ++e) sum[e] = zero();
  for (int begin = lanes.from / kTileKeys * kTileKeys; begin < lanes.to; begin += kTileKeys) {
    float keys[E * kTileKeys];
    RLGEN_UNROLL
    for (int e = 0; e < E; ++e) {
      store(load_at<kType>(part.values[begin / kTileKeys], (element + e) * kTileKeys),
            keys + e * kTileKeys);
    }
    const float* of_tile = weights + begin * kLaneRows;
    if (lanes.all_from <= begin && begin + kTileKeys <= lanes.all_to) {
      add_keys<E, false>(lanes, begin, of_tile, keys, sum);
    } else {
      add_keys<E, true>(lanes, begin, of_tile, keys, sum);
    }
  }
  RLGEN_UNROLL
  for (int e = 0; e < E; ++e) store(sum[e], sums + e * kLaneRows);
}

// The values of a chunk for 16 rows from `row` of the group on, into part.value.
template <DType kType>
static void add_values_of_lanes(const RowGroup& group, const ChunkPart& part, int row,
                                int64_t value_dim) {
  const LaneRows lanes = lane_rows(group, part, row);
  const int begin = lanes.from / kTileKeys * kTileKeys;
  turn(part.weight + row * kChunkKeys + begin, kChunkKeys, lanes.rows, lanes.to - begin,
       part.lane_weights + begin * kLaneRows, kLaneRows);
  float* value = part.value + row * value_dim;
  float sums[kLaneElements * kLaneRows];
  int64_t e = 0;
  for (; e + kLaneElements <= value_dim; e += kLaneElements) {
    sum_elements<kType, kLaneElements>(lanes, part, part.lane_weights, e, sums);
    turn(sums, kLaneRows, kLaneElements, lanes.rows, value + e, value_dim);
  }
  for (; e < value_dim; ++e) {
    sum_elements<kType, 1>(lanes, part, part.lane_weights, e, sums);
    turn(sums, kLaneRows, 1, lanes.rows, value + e, value_dim);
  }
}

template <DType kType>
static void add_values_in_keys(const RowGroup& group, const ChunkPart& part, int64_t value_dim) {
  for (int row = 0; row < group.rows; row += kLaneRows) {
    add_values_of_lanes<kType>(group, part, row, value_dim);
  }
}

}  // namespace rlgen::kernels::RLGEN_ISA
