#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/exp_impl.h"
#include "kernels/kernel_args.h"

// Attention over the paged cache. Included once by each file of isa/. The definition of the numbers
// is docs/numbers.md; everything here that is not in it (blocks and groups of rows, how many tiles
// go together) is free to change, since no row's sums ever meet another's.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int kTileKeys = 16;
constexpr int kChunkKeys = 256;
constexpr int kChunkTiles = kChunkKeys / kTileKeys;

// Accumulators of kBlockRows rows times kBlockVectors vectors fill the registers: 24 of 32 with
// AVX-512, 12 of 16 halves with AVX2, 24 of 32 quarters with NEON.
#if defined(__AVX512F__)
constexpr int kBlockRows = 6;
constexpr int kBlockVectors = 4;
#else
constexpr int kBlockRows = 3;
constexpr int kBlockVectors = 2;
#endif
// Rows that share a tile of keys or values while it is in the first-level cache.
constexpr int kGroupRows = 4 * kBlockRows;
// Tiles of values that are shared so: 16 KiB at 64 float32 dimensions.
constexpr int kValueTiles = 4;

// Query rows of one KV head, one per position and head of its group, and what they have summed.
struct RowGroup {
  int rows = 0;
  const float* q[kGroupRows];
  float* out[kGroupRows];
  int64_t first[kGroupRows];  // keys first .. end - 1 are seen
  int64_t end[kGroupRows];
  bool started[kGroupRows];  // some chunk has been merged
  float max[kGroupRows];
  float sum[kGroupRows];
  float* value;  // [rows][value_dim]
};

// The same for one chunk alone. Memory of a group's chunk: scores, then values.
struct ChunkPart {
  int first_tile;  // some row sees tiles first_tile .. end_tile - 1
  int end_tile;
  const std::byte* keys[kChunkTiles];    // of those tiles
  const std::byte* values[kChunkTiles];  // likewise
  int from[kGroupRows];                  // keys from .. to - 1 of the chunk are seen
  int to[kGroupRows];
  float max[kGroupRows];
  float sum[kGroupRows];
  float* weight;   // [rows][kChunkKeys]: scores, then exp(score - max)
  float* value;    // [rows][value_dim]
  float* widened;  // some tiles of keys or of values as float32
};

template <DType kType>
RLGEN_INLINE F32x16 load_at(const std::byte* p, int64_t i) {
  if constexpr (kType == DType::kFloat32) return load(reinterpret_cast<const float*>(p) + i);
  if constexpr (kType == DType::kBFloat16) {
    return load_bf16(reinterpret_cast<const uint16_t*>(p) + i);
  }
  if constexpr (kType == DType::kFloat16) {
    return load_f16(reinterpret_cast<const uint16_t*>(p) + i);
  }
}

template <DType kType>
RLGEN_INLINE F32x16 load_at_n(const std::byte* p, int64_t i, int n) {
  if constexpr (kType == DType::kFloat32) return load_n(reinterpret_cast<const float*>(p) + i, n);
  if constexpr (kType == DType::kBFloat16) {
    return load_bf16_n(reinterpret_cast<const uint16_t*>(p) + i, n);
  }
  if constexpr (kType == DType::kFloat16) {
    return load_f16_n(reinterpret_cast<const uint16_t*>(p) + i, n);
  }
}

// How many of `left` rows go together.
RLGEN_INLINE int rows_together(int left) {
  if (left == 5) return 3;
  if (kBlockRows == 3 && left == 4) return 2;
  if (kBlockRows == 6 && (left == 7 || left == 8)) return 4;
  return left < kBlockRows ? left : kBlockRows;
}

// f<R>() for R = rows.
template <typename F>
RLGEN_INLINE void with_rows(int rows, F f) {
  if constexpr (kBlockRows == 6) {
    if (rows == 6) return f.template operator()<6>();
    if (rows == 4) return f.template operator()<4>();
  }
  if (rows == 3) return f.template operator()<3>();
  if (rows == 2) return f.template operator()<2>();
  return f.template operator()<1>();
}

// Scores of R rows and T tiles; score [R] with row stride kChunkKeys.
template <DType kType, int R, int T>
static void score_tiles(const float* const* q, const std::byte* const* tiles, int64_t head_dim,
                        float scale, float* score) {
  F32x16 sum[R][T];
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) sum[r][t] = zero();
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    F32x16 key[T];
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) key[t] = load_at<kType>(tiles[t], d * kTileKeys);
    RLGEN_UNROLL
    for (int r = 0; r < R; ++r) {
      const F32x16 query = broadcast(q[r][d]);
      RLGEN_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = fma(query, key[t], sum[r][t]);
    }
  }
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) {
      store(sum[r][t] * broadcast(scale), score + r * kChunkKeys + t * kTileKeys);
    }
  }
}

// Where the values of a chunk are read: by tile, as in ChunkPart.
using Tiles = const std::byte* const*;

// value[r] += weight[r][key] * V[key] for keys from .. to - 1 in order: R rows, N vectors from
// dimension `at` on, of which the last has `lanes` lanes.
template <DType kType, int R, int N, bool kWhole>
static void add_values(const ChunkPart& part, Tiles values, int row, int from, int to,
                       int64_t value_dim, int64_t at, int lanes) {
  const float* weight = part.weight + int64_t(row) * kChunkKeys;
  float* value = part.value + row * value_dim + at;
  F32x16 sum[R][N];
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int v = 0; v < N; ++v) {
      const float* old = value + r * value_dim + v * 16;
      sum[r][v] = kWhole ? load(old) : load_n(old, lanes);
    }
  }
  while (from < to) {
    const int tile = from / kTileKeys;
    const int stop = (tile + 1) * kTileKeys < to ? (tile + 1) * kTileKeys : to;
    int64_t element = int64_t(from % kTileKeys) * value_dim + at;
    for (; from < stop; ++from, element += value_dim) {
      F32x16 row_of_values[N];
      RLGEN_UNROLL
      for (int v = 0; v < N; ++v) {
        row_of_values[v] = kWhole ? load_at<kType>(values[tile], element + v * 16)
                                  : load_at_n<kType>(values[tile], element + v * 16, lanes);
      }
      RLGEN_UNROLL
      for (int r = 0; r < R; ++r) {
        const F32x16 w = broadcast(weight[r * kChunkKeys + from]);
        RLGEN_UNROLL
        for (int v = 0; v < N; ++v) sum[r][v] = fma(w, row_of_values[v], sum[r][v]);
      }
    }
  }
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int v = 0; v < N; ++v) {
      float* sink = value + r * value_dim + v * 16;
      if (kWhole) {
        store(sum[r][v], sink);
      } else {
        store_n(sum[r][v], sink, lanes);
      }
    }
  }
}

// All dimensions of R rows that see every key from .. to - 1.
template <DType kType, int R>
static void add_all_values(const ChunkPart& part, Tiles values, int row, int from, int to,
                           int64_t value_dim) {
  if (from >= to) return;
  int64_t at = 0;
  for (; at + 16 * kBlockVectors <= value_dim; at += 16 * kBlockVectors) {
    add_values<kType, R, kBlockVectors, true>(part, values, row, from, to, value_dim, at, 16);
  }
  for (; at + 16 <= value_dim; at += 16) {
    add_values<kType, R, 1, true>(part, values, row, from, to, value_dim, at, 16);
  }
  if (at == value_dim) return;
  for (int r = 0; r < R; ++r) {
    add_values<kType, 1, 1, false>(part, values, row + r, from, to, value_dim, at,
                                   int(value_dim - at));
  }
}

RLGEN_INLINE int larger(int a, int b) { return a > b ? a : b; }
RLGEN_INLINE int smaller(int a, int b) { return a < b ? a : b; }

// Keys begin .. end - 1 of the chunk for `rows` rows from `row` on: what all of them see together,
// what only some see before and after it row by row.
template <DType kType>
static void add_value_block(const ChunkPart& part, Tiles values, int row, int rows, int begin,
                            int end, int64_t value_dim) {
  int from = begin;
  int to = end;
  for (int r = row; r < row + rows; ++r) {
    from = larger(from, part.from[r]);
    to = smaller(to, part.to[r]);
  }
  if (from > to) from = to = end;
  for (int r = row; r < row + rows; ++r) {
    add_all_values<kType, 1>(part, values, r, larger(begin, part.from[r]),
                             smaller(from, part.to[r]), value_dim);
  }
  with_rows(rows,
            [&]<int R>() { add_all_values<kType, R>(part, values, row, from, to, value_dim); });
  for (int r = row; r < row + rows; ++r) {
    add_all_values<kType, 1>(part, values, r, larger(to, part.from[r]), smaller(end, part.to[r]),
                             value_dim);
  }
}

// Keys begin .. end - 1 for all rows of the group.
template <DType kType>
static void add_value_blocks(const RowGroup& group, const ChunkPart& part, Tiles values, int begin,
                             int end, int64_t value_dim) {
  for (int row = 0; row < group.rows;) {
    const int rows = rows_together(group.rows - row);
    add_value_block<kType>(part, values, row, rows, begin, end, value_dim);
    row += rows;
  }
}

template <DType kType>
RLGEN_INLINE const std::byte* widen(const std::byte* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 16) store(load_at<kType>(from, i), to + i);
  return reinterpret_cast<const std::byte*>(to);
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
  for (int tile = part.first_tile; tile < part.end_tile; tile += kValueTiles) {
    const int end = smaller(tile + kValueTiles, part.end_tile);
    if (widens<kType>(group)) {
      const std::byte* wide[kChunkTiles];
      for (int t = tile; t < end; ++t) {
        float* to = part.widened + (t - tile) * kTileKeys * value_dim;
        wide[t] = widen<kType>(part.values[t], kTileKeys * value_dim, to);
      }
      add_value_blocks<DType::kFloat32>(group, part, wide, tile * kTileKeys, end * kTileKeys,
                                        value_dim);
    } else {
      add_value_blocks<kType>(group, part, part.values, tile * kTileKeys, end * kTileKeys,
                              value_dim);
    }
  }
}

// Scores of tiles begin .. end - 1, at most kBlockVectors, for `rows` rows from `row` on; tiles
// that none of these rows sees are left out.
template <DType kType>
static void score_block(const RowGroup& group, const ChunkPart& part, Tiles keys, int row, int rows,
                        int begin, int end, int64_t head_dim, float scale) {
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
      score_tiles<kType, R, kBlockVectors>(group.q + row, keys + begin, head_dim, scale,
                                           score + begin * kTileKeys);
      return;
    }
    for (int t = begin; t < end; ++t) {
      score_tiles<kType, R, 1>(group.q + row, keys + t, head_dim, scale, score + t * kTileKeys);
    }
  });
}

template <DType kType>
static void score_blocks(const RowGroup& group, const ChunkPart& part, Tiles keys, int begin,
                         int end, int64_t head_dim, float scale) {
  for (int row = 0; row < group.rows;) {
    const int rows = rows_together(group.rows - row);
    score_block<kType>(group, part, keys, row, rows, begin, end, head_dim, scale);
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
      score_blocks<DType::kFloat32>(group, part, wide, tile, end, head_dim, scale);
    } else {
      score_blocks<kType>(group, part, part.keys, tile, end, head_dim, scale);
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

// Turns the scores of one row into weights and notes their maximum and sum.
static void weigh_row(ChunkPart& part, int row) {
  const int from = part.from[row];
  const int to = part.to[row];
  const int first = from / kTileKeys;
  const int end = (to + kTileKeys - 1) / kTileKeys;
  float* weight = part.weight + int64_t(row) * kChunkKeys;
  const F32x16 lowest = broadcast(-__builtin_inff());
  F32x16 best = lowest;
  for (int tile = first; tile < end; ++tile) {
    best = max(seen(load(weight + tile * kTileKeys), tile, from, to, lowest), best);
  }
  const float largest = reduce_max(best);
  F32x16 sum = zero();
  for (int tile = first; tile < end; ++tile) {
    const F32x16 e = exp(load(weight + tile * kTileKeys) - broadcast(largest));
    const F32x16 w = seen(e, tile, from, to, zero());
    store(w, weight + tile * kTileKeys);
    sum = sum + w;
  }
  part.max[row] = largest;
  part.sum[row] = reduce_sum(sum);
}

// Sums of one chunk alone, for every row of the group.
template <DType kType>
static void attend_chunk(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
  const KvLayout& layout = args.kv.layout;
  score_group<kType>(group, part, layout.head_dim, args.scale);
  for (int row = 0; row < group.rows; ++row) {
    if (part.from[row] < part.to[row]) weigh_row(part, row);
  }
  add_group_values<kType>(group, part, layout.value_dim);
}

// exp of a single number, the same bits as in a vector.
RLGEN_INLINE float exp_one(float x) {
  float lanes[16];
  store(exp(broadcast(x)), lanes);
  return lanes[0];
}

// Adds a chunk's sums to those of the chunks before it. The first chunk is taken as it is.
static void merge_row(RowGroup& group, const ChunkPart& part, int row, int64_t value_dim) {
  float* total = group.value + row * value_dim;
  const float* value = part.value + row * value_dim;
  if (!group.started[row]) {
    group.started[row] = true;
    group.max[row] = part.max[row];
    group.sum[row] = part.sum[row];
    memcpy(total, value, size_t(value_dim) * sizeof(float));
    return;
  }
  const float largest = part.max[row] > group.max[row] ? part.max[row] : group.max[row];
  const float before = exp_one(group.max[row] - largest);
  const float now = exp_one(part.max[row] - largest);
  group.max[row] = largest;
  group.sum[row] = group.sum[row] * before + part.sum[row] * now;
  for (int64_t i = 0; i < value_dim; i += 16) {
    const int n = value_dim - i < 16 ? int(value_dim - i) : 16;
    const F32x16 added = load_n(value + i, n) * broadcast(now);
    store_n(fma(load_n(total + i, n), broadcast(before), added), total + i, n);
  }
}

static void finish_row(const RowGroup& group, int row, int64_t value_dim) {
  const float* value = group.value + row * value_dim;
  for (int64_t i = 0; i < value_dim; i += 16) {
    const int n = value_dim - i < 16 ? int(value_dim - i) : 16;
    store_n(load_n(value + i, n) / broadcast(group.sum[row]), group.out[row] + i, n);
  }
}

// Where the chunk that begins at key `begin` lies, and which of its keys each row sees. False
// where no row sees any.
static bool locate_chunk(const AttentionArgs& args, const AttentionSequence& sequence,
                         int32_t kv_head, const RowGroup& group, int64_t begin, ChunkPart* part) {
  int from = kChunkKeys;
  int to = 0;
  for (int row = 0; row < group.rows; ++row) {
    const int64_t first = group.first[row] - begin;
    const int64_t end = group.end[row] - begin;
    part->from[row] = first < 0 ? 0 : first < kChunkKeys ? int(first) : kChunkKeys;
    part->to[row] = end < 0 ? 0 : end < kChunkKeys ? int(end) : kChunkKeys;
    if (part->from[row] >= part->to[row]) continue;
    from = smaller(from, part->from[row]);
    to = larger(to, part->to[row]);
  }
  const KvLayout& layout = args.kv.layout;
  const int64_t tiles_in_block = layout.block_size / kTileKeys;
  const size_t element = layout.dtype == DType::kFloat32 ? 4 : 2;
  part->first_tile = from / kTileKeys;
  part->end_tile = (to + kTileKeys - 1) / kTileKeys;
  for (int tile = part->first_tile; tile < part->end_tile; ++tile) {
    const int64_t at = begin / kTileKeys + tile;
    const std::byte* head =
        args.kv.head(sequence.block_table[at / tiles_in_block], args.layer, kv_head);
    const size_t keys_before = size_t(at % tiles_in_block) * kTileKeys;
    part->keys[tile] = head + keys_before * size_t(layout.head_dim) * element;
    part->values[tile] =
        head + layout.value_offset() + keys_before * size_t(layout.value_dim) * element;
  }
  return from < to;
}

template <DType kType>
static void attend_group(const AttentionArgs& args, const AttentionSequence& sequence,
                         int32_t kv_head, RowGroup& group, ChunkPart& part) {
  const int64_t value_dim = args.kv.layout.value_dim;
  // Positions rise along a group, so the first row begins first and the last ends last.
  const int64_t start = group.first[0] / kChunkKeys * kChunkKeys;
  for (int64_t begin = start; begin < group.end[group.rows - 1]; begin += kChunkKeys) {
    if (!locate_chunk(args, sequence, kv_head, group, begin, &part)) continue;
    attend_chunk<kType>(args, group, part);
    for (int row = 0; row < group.rows; ++row) {
      if (part.from[row] < part.to[row]) merge_row(group, part, row, value_dim);
    }
  }
  for (int row = 0; row < group.rows; ++row) finish_row(group, row, value_dim);
}

// Makes row `index` of the task (position by position, the heads of each together) the next row of
// the group.
static void add_row(const AttentionArgs& args, const AttentionSequence& sequence,
                    const AttentionTask& task, int64_t index, RowGroup* group) {
  const KvLayout& layout = args.kv.layout;
  const int64_t heads = args.heads / layout.kv_heads;
  const int64_t position_row = task.row_begin + index / heads;
  const int64_t head = task.kv_head * heads + index % heads;
  const int64_t position = sequence.first_position + position_row;
  const int row = group->rows++;
  const int64_t batch_row = sequence.first_row + position_row;
  group->q[row] = args.q + batch_row * args.ldq + head * layout.head_dim;
  group->out[row] = args.out + batch_row * args.ldo + head * layout.value_dim;
  group->end[row] = position + 1;
  group->first[row] = args.window > 0 && position >= args.window ? position + 1 - args.window : 0;
  group->started[row] = false;
}

// Vectors of scratch that straddle two cache lines cost a fifth of the speed.
constexpr int64_t kLineFloats = 16;

RLGEN_INLINE float* next_line(float* p) {
  constexpr uintptr_t kLine = kLineFloats * sizeof(float);
  return p + (kLine - reinterpret_cast<uintptr_t>(p) % kLine) % kLine / sizeof(float);
}

RLGEN_INLINE int64_t widened_floats(const KvLayout& layout) {
  return kValueTiles * kTileKeys * int64_t(larger(layout.head_dim, layout.value_dim));
}

static int64_t attention_scratch(const AttentionArgs& args, int64_t rows) {
  const KvLayout& layout = args.kv.layout;
  const int64_t all = rows * (args.heads / layout.kv_heads);
  const int64_t together = all < kGroupRows ? all : kGroupRows;
  return kLineFloats + widened_floats(layout) +
         together * (kChunkKeys + 2 * int64_t(layout.value_dim));
}

static void attention(const AttentionArgs& args, const AttentionSequence& sequence,
                      const AttentionTask& task, float* scratch) {
  const KvLayout& layout = args.kv.layout;
  const int64_t rows = (task.row_end - task.row_begin) * (args.heads / layout.kv_heads);
  for (int64_t done = 0; done < rows; done += kGroupRows) {
    RowGroup group;
    ChunkPart part;
    for (int64_t i = done; i < rows && i < done + kGroupRows; ++i) {
      add_row(args, sequence, task, i, &group);
    }
    part.widened = next_line(scratch);
    part.weight = part.widened + widened_floats(layout);
    part.value = part.weight + int64_t(group.rows) * kChunkKeys;
    group.value = part.value + group.rows * int64_t(layout.value_dim);
    switch (layout.dtype) {
      case DType::kFloat32:
        attend_group<DType::kFloat32>(args, sequence, task.kv_head, group, part);
        break;
      case DType::kBFloat16:
        attend_group<DType::kBFloat16>(args, sequence, task.kv_head, group, part);
        break;
      default:
        attend_group<DType::kFloat16>(args, sequence, task.kv_head, group, part);
        break;
    }
  }
}

}  // namespace rlgen::kernels::RLGEN_ISA
