#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/attention_bf16_impl.h"
#include "kernels/linear_bf16_impl.h"

// Attention with the products of the bfloat16_amx profile over a cache of bfloat16, without tile
// registers: q and the weights are rounded, and dimensions and keys go in blocks of 32, the even
// and the odd ones in chains of their own. Numbers: docs/numbers.md.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int kAmxBlock = 32;

RLGEN_INLINE int block_begin(int key) { return key / kAmxBlock * kAmxBlock; }
RLGEN_INLINE int block_end(int key) { return block_begin(key + kAmxBlock - 1); }

// Rows of rounded values: as float32, or as bfloat16.
struct FloatRows {
  RLGEN_INLINE F32x16 at(const float* row, int64_t i) { return broadcast(row[i]); }
};
struct HalfRows {
  RLGEN_INLINE F32x16 at(const float* row, int64_t i) {
    return broadcast(bf16_value(reinterpret_cast<const uint16_t*>(row)[i]));
  }
};

// Sums that a block's chains end in.
template <int R, int N>
struct Chains {
  F32x16 even[R][N];
  F32x16 odd[R][N];
};

template <int R, int N>
RLGEN_INLINE void fill(F32x16 (&chain)[R][N], F32x16 x) {
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int i = 0; i < N; ++i) chain[r][i] = x;
  }
}

// chain[r][i] += x[r] * y[i]
template <int R, int N, typename X>
RLGEN_INLINE void add_step(F32x16 (&chain)[R][N], const F32x16 (&y)[N], X x) {
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    const F32x16 of_row = x(r);
    RLGEN_UNROLL
    for (int i = 0; i < N; ++i) chain[r][i] = fma(of_row, y[i], chain[r][i]);
  }
}

// Scores, not yet scaled, of R rows and T tiles; score [R] with row stride kChunkKeys. The
// zeros that fill the last block are left out: they could only change the sign of a score of 0.
template <int R, int T>
static void score_amx_tiles(const float* const* q, TilesOfChunk keys, int64_t head_dim,
                            float* score) {
  F32x16 sum[R][T];
  fill(sum, zero());
  for (int64_t block = 0; block < head_dim; block += kAmxBlock) {
    Chains<R, T> chains;
    fill(chains.even, zero());
    fill(chains.odd, zero());
    const auto add = [&](F32x16(&chain)[R][T], int64_t d) {
      F32x16 key[T];
      RLGEN_UNROLL
      for (int t = 0; t < T; ++t) {
        fetch<PlainSteps<DType::kBFloat16>>(keys.after[t], d * kTileKeys, kTileKeys, 1);
        key[t] = load_at<DType::kBFloat16>(keys.tiles[t], d * kTileKeys);
      }
      add_step(chain, key, [&](int r) { return FloatRows::at(q[r], d); });
    };
    const int64_t end = block + kAmxBlock < head_dim ? block + kAmxBlock : head_dim;
    int64_t d = block;
    for (; d + 1 < end; d += 2) {
      add(chains.even, d);
      add(chains.odd, d + 1);
    }
    if (d < end) add(chains.even, d);
    RLGEN_UNROLL
    for (int r = 0; r < R; ++r) {
      RLGEN_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = sum[r][t] + (chains.even[r][t] + chains.odd[r][t]);
    }
  }
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) store(sum[r][t], score + r * kChunkKeys + t * kTileKeys);
  }
}

// Tiles at once: their chains fill the registers, as those of kBlockRows rows.
#if defined(__AVX512F__)
constexpr int kAmxTiles = 2;
constexpr int kAmxRows = kBlockRows;
#else
constexpr int kAmxTiles = 1;
constexpr int kAmxRows = 2;
#endif

RLGEN_INLINE int amx_rows_together(int left) {
  const int rows = rows_together(left);
  return rows < kAmxRows ? rows : kAmxRows;
}

// In flush mode: scores of all rows of the group.
[[gnu::noinline]] static void multiply_amx_keys(const KvLayout& layout, const RowGroup& group,
                                                const ChunkPart& part) {
  for (int row = 0; row < group.rows;) {
    const int rows = amx_rows_together(group.rows - row);
    float* const score = part.weight + int64_t(row) * kChunkKeys;
    with_rows(rows, [&]<int R>() {
      int tile = part.first_tile;
      const auto keys = [&] { return TilesOfChunk{part.keys + tile, part.after_keys + tile}; };
      for (; tile + kAmxTiles <= part.end_tile; tile += kAmxTiles) {
        score_amx_tiles<R, kAmxTiles>(group.q + row, keys(), layout.head_dim,
                                      score + tile * kTileKeys);
      }
      for (; tile < part.end_tile; ++tile) {
        score_amx_tiles<R, 1>(group.q + row, keys(), layout.head_dim, score + tile * kTileKeys);
      }
    });
    row += rows;
  }
}

// value[r] += weight[r][key] * V[key] for keys from .. to - 1, which are all that these rows see of
// their blocks: R rows, N vectors from dimension `at` on, of which the last has `lanes` lanes.
template <typename O, int R, int N>
static void add_amx_values(const ChunkPart& part, int row, int from, int to, int64_t value_dim,
                           int64_t at, int lanes) {
  const float* weight = part.weight + int64_t(row) * kChunkKeys;
  float* value = part.value + row * value_dim + at;
  for (int block = block_begin(from); block < to; block += kAmxBlock) {
    Chains<R, N> chains;
    fill(chains.even, zero());
    fill(chains.odd, zero());
    const auto add = [&](F32x16(&chain)[R][N], int key) {
      const int64_t element = key % kTileKeys * value_dim + at;
      const std::byte* const tile = part.values[key / kTileKeys];
      fetch<PlainSteps<DType::kBFloat16>>(part.after_values[key / kTileKeys], element, value_dim,
                                          N);
      F32x16 values[N];
      RLGEN_UNROLL
      for (int v = 0; v < N; ++v) {
        values[v] = lanes == 16 ? load_at<DType::kBFloat16>(tile, element + v * 16)
                                : load_at_n<DType::kBFloat16>(tile, element + v * 16, lanes);
      }
      add_step(chain, values, [&](int r) { return O::at(weight + r * kChunkKeys, key); });
    };
    int key = larger(from, block);
    const int end = smaller(to, block + kAmxBlock);
    if (key % 2 != 0) add(chains.odd, key++);
    for (; key + 1 < end; key += 2) {
      add(chains.even, key);
      add(chains.odd, key + 1);
    }
    if (key < end) add(chains.even, key);
    RLGEN_UNROLL
    for (int r = 0; r < R; ++r) {
      RLGEN_UNROLL
      for (int v = 0; v < N; ++v) {
        float* const sum = value + r * value_dim + v * 16;
        const F32x16 added = chains.even[r][v] + chains.odd[r][v];
        if (lanes == 16) {
          store(load(sum) + added, sum);
        } else {
          store_n(load_n(sum, lanes) + added, sum, lanes);
        }
      }
    }
  }
}

template <typename O, int R>
static void add_all_amx_values(const ChunkPart& part, int row, int from, int to,
                               int64_t value_dim) {
  if (from >= to) return;
  int64_t at = 0;
  for (; at + 16 * kBlockVectors <= value_dim; at += 16 * kBlockVectors) {
    add_amx_values<O, R, kBlockVectors>(part, row, from, to, value_dim, at, 16);
  }
  for (; at + 16 <= value_dim; at += 16) {
    add_amx_values<O, R, 1>(part, row, from, to, value_dim, at, 16);
  }
  if (at < value_dim) {
    add_amx_values<O, R, 1>(part, row, from, to, value_dim, at, int(value_dim - at));
  }
}

// Keys of a chunk that some rows see all of; empty where from >= to.
struct KeyRange {
  int from;
  int to;
};

// What `rows` rows from `row` on can take together: what they see where that is the same, else the
// blocks that all of them see whole. Rows that see nothing of the chunk do not count.
RLGEN_INLINE KeyRange shared_keys(const ChunkPart& part, int row, int rows) {
  KeyRange same = {part.from[row], part.to[row]};
  KeyRange whole = {0, kChunkKeys};
  bool differ = false;
  for (int r = row; r < row + rows; ++r) {
    differ = differ || part.from[r] != same.from || part.to[r] != same.to;
    if (part.from[r] >= part.to[r]) continue;
    whole.from = larger(whole.from, block_end(part.from[r]));
    whole.to = smaller(whole.to, block_begin(part.to[r]));
  }
  return differ ? whole : same;
}

// The keys before, or after, a range that rows take together, row by row.
template <typename O>
static void add_keys_before(const ChunkPart& part, int row, int rows, KeyRange shared,
                            int64_t value_dim) {
  const bool none = shared.from >= shared.to;
  for (int r = row; r < row + rows; ++r) {
    const int to = none ? part.to[r] : smaller(part.to[r], shared.from);
    add_all_amx_values<O, 1>(part, r, part.from[r], to, value_dim);
  }
}

template <typename O>
static void add_keys_after(const ChunkPart& part, int row, int rows, KeyRange shared,
                           int64_t value_dim) {
  if (shared.from >= shared.to) return;
  for (int r = row; r < row + rows; ++r) {
    add_all_amx_values<O, 1>(part, r, larger(part.from[r], shared.to), part.to[r], value_dim);
  }
}

RLGEN_INLINE void clear_values(const RowGroup& group, const ChunkPart& part, int64_t value_dim) {
  memset(part.value, 0, size_t(group.rows) * size_t(value_dim) * sizeof(float));
}

// Rows of values whose chains fill the registers.
constexpr int kAmxValueRows = kAmxRows / 2;

// In flush mode: values of all rows of the group.
[[gnu::noinline]] static void multiply_amx_values(const KvLayout& layout, const RowGroup& group,
                                                  const ChunkPart& part) {
  const int64_t value_dim = layout.value_dim;
  clear_values(group, part, value_dim);
  for (int row = 0; row < group.rows;) {
    const int left = group.rows - row;
    const int rows = left < kAmxValueRows ? left : kAmxValueRows;
    const KeyRange shared = shared_keys(part, row, rows);
    add_keys_before<FloatRows>(part, row, rows, shared, value_dim);
    with_rows(rows, [&]<int R>() {
      add_all_amx_values<FloatRows, R>(part, row, shared.from, shared.to, value_dim);
    });
    add_keys_after<FloatRows>(part, row, rows, shared, value_dim);
    row += rows;
  }
}

// The same step by step, for in_flush_mode. Sums of zeros and of the steps' results are never
// judged otherwise: an addition with a subnormal result is exact.
[[maybe_unused]] static void multiply_amx_keys_exactly(const KvLayout& layout,
                                                       const RowGroup& group,
                                                       const ChunkPart& part) {
  for (int row = 0; row < group.rows; ++row) {
    const float* q = group.q[row];
    for (int key = part.from[row]; key < part.to[row]; ++key) {
      const auto* tile = reinterpret_cast<const uint16_t*>(part.keys[key / kTileKeys]);
      const uint16_t* lane = tile + key % kTileKeys;
      float sum = 0.0f;
      for (int64_t block = 0; block < layout.head_dim; block += kAmxBlock) {
        float chain[2] = {0.0f, 0.0f};
        for (int64_t d = block; d < block + kAmxBlock; ++d) {
          const bool there = d < layout.head_dim;
          chain[d % 2] = exact_step(there ? q[d] : 0.0f,
                                    there ? bf16_value(lane[d * kTileKeys]) : 0.0f, chain[d % 2]);
        }
        sum = flush(sum + flush(chain[0] + chain[1]));
      }
      part.weight[row * kChunkKeys + key] = sum;
    }
  }
}

[[maybe_unused]] static void multiply_amx_values_exactly(const KvLayout& layout,
                                                         const RowGroup& group,
                                                         const ChunkPart& part) {
  for (int row = 0; row < group.rows; ++row) {
    const float* weight = part.weight + row * kChunkKeys;
    for (int64_t e = 0; e < layout.value_dim; ++e) {
      float sum = 0.0f;
      for (int block = block_begin(part.from[row]); block < part.to[row]; block += kAmxBlock) {
        float chain[2] = {0.0f, 0.0f};
        const int end = smaller(part.to[row], block + kAmxBlock);
        for (int key = larger(part.from[row], block); key < end; ++key) {
          const auto* tile = reinterpret_cast<const uint16_t*>(part.values[key / kTileKeys]);
          const float v = bf16_value(tile[key % kTileKeys * layout.value_dim + e]);
          chain[key % 2] = exact_step(weight[key], v, chain[key % 2]);
        }
        sum = flush(sum + flush(chain[0] + chain[1]));
      }
      part.value[row * layout.value_dim + e] = sum;
    }
  }
}

namespace {

struct AmxProducts {
  static constexpr bool kScales = false;
  static void take_queries(const AttentionArgs& args, RowGroup& group, const ChunkPart& part) {
    round_queries(args.kv.layout, group, part, round_row);
  }
  static void score(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    const KvLayout& layout = args.kv.layout;
    in_flush_mode([&] { multiply_amx_keys(layout, group, part); },
                  [&] { multiply_amx_keys_exactly(layout, group, part); });
  }
  RLGEN_INLINE void store_weights(F32x16 w, float* weight, int tile) {
    uint16_t half[kTileKeys];
    store_bf16(w, half);
    store(load_bf16(half), weight + tile * kTileKeys);
  }
  static void add_values(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    const KvLayout& layout = args.kv.layout;
    in_flush_mode([&] { multiply_amx_values(layout, group, part); },
                  [&] { multiply_amx_values_exactly(layout, group, part); });
  }
};

}  // namespace

}  // namespace rlgen::kernels::RLGEN_ISA
