#pragma once

#include <stdint.h>

#include "kernels/kernel_args.h"

// The inner loops of attention: some query rows against some tiles of keys or of values. Numbers:
// docs/numbers.md. How many rows and tiles go together is free to change, since no row's sums ever
// meet another's.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int kChunkKeys = int(kAttentionChunkKeys);
constexpr int kChunkTiles = kChunkKeys / kTileKeys;

// Accumulators of kBlockRows rows times kBlockVectors vectors fill the registers: 24 of 32 with
// AVX-512, 12 of 16 halves with AVX2, 24 of 32 quarters with NEON. What they are multiplied with
// needs room too: three rows times two vectors took 17 halves, and the one that lay in memory
// halved the speed.
constexpr int kBlockRows = 6;
#if defined(__AVX512F__)
constexpr int kBlockVectors = 4;
#else
constexpr int kBlockVectors = 1;
#endif
// Rows that share a tile of keys or values while it is in the first-level cache.
constexpr int kGroupRows = 4 * kBlockRows;
// The same where values are in the keys, whose sums have 16 rows in the lanes.
constexpr int kMostGroupRows = 32;
// Tiles of values that are shared so: 16 KiB at 64 float32 dimensions.
constexpr int kValueTiles = 4;
// With few rows a tile is read from memory faster than the processor fetches ahead on its own: it
// stops at the end of a page, which a tile of 64 float32 dimensions fills.
constexpr int kAheadTiles = 4;

// Query rows of one KV head, one per position and head of its group, and what they have summed.
struct RowGroup {
  int rows = 0;
  const float* q[kMostGroupRows];
  float* out[kMostGroupRows];
  const float* sink[kMostGroupRows];  // of the row's head; null: none
  int64_t first[kMostGroupRows];      // keys first .. end - 1 are seen
  int64_t end[kMostGroupRows];
  bool started[kMostGroupRows];  // some chunk has been merged
  float max[kMostGroupRows];
  float sum[kMostGroupRows];
  float* value;  // [rows][value_dim]
  // What comes after the group, as in AttentionTask.
  const AttentionSequence* then = nullptr;
  int32_t then_kv_head = 0;
};

// The same for one chunk alone. Memory of a group's chunk: scores, then values.
struct ChunkPart {
  int first_tile;  // some row sees tiles first_tile .. end_tile - 1
  int end_tile;
  const std::byte* keys[kChunkTiles];    // of those tiles
  const std::byte* values[kChunkTiles];  // likewise
  int from[kMostGroupRows];              // keys from .. to - 1 of the chunk are seen
  int to[kMostGroupRows];
  float max[kMostGroupRows];
  float sum[kMostGroupRows];
  // The tile that is read kAheadTiles tiles after each of them; null where nothing is fetched
  // ahead.
  const std::byte* after_keys[kChunkTiles];
  const std::byte* after_values[kChunkTiles];
  float* weight;        // [rows][kChunkKeys]: scores, then exp(score - max)
  float* value;         // [rows][value_dim]
  float* widened;       // some tiles of keys or of values as float32
  float* lane_weights;  // where values are in the keys: weights of 16 rows, [kChunkKeys][16]
  float* operands;      // of rounded products: q, [rows][rounded_row_floats]
  float* edge;          // likewise: a tile of values in which one key alone is set
  // Of tile registers: the chunk's keys and values, each tile arranged where its bit is set.
  float* arranged_keys;
  float* arranged_values;
  uint32_t keys_done;
  uint32_t values_done;
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

// What the inner loops take in one step: of rows of a tile, which have an element of each of its 16
// keys or a key's values, a vector. A step is row row_of(step), and those that load needs beside
// it.
template <DType kType>
struct PlainSteps {
  using Vector = F32x16;
  static constexpr int kTileSteps = kTileKeys;  // of the values of a tile
  static constexpr int kRows = 1;               // of a step
  static constexpr int kElement = kType == DType::kFloat32 ? 4 : 2;
  RLGEN_INLINE int64_t row_of(int64_t step) { return step; }
  // Elements i .. i + 15 of the tile, whose rows have `width`.
  RLGEN_INLINE Vector load(const std::byte* tile, int64_t i, int64_t) {
    return load_at<kType>(tile, i);
  }
  RLGEN_INLINE Vector load_n(const std::byte* tile, int64_t i, int64_t, int n) {
    return load_at_n<kType>(tile, i, n);
  }
  RLGEN_INLINE Vector broadcast_at(const float* x) { return broadcast(*x); }
  RLGEN_INLINE F32x16 add(Vector x, Vector y, F32x16 sum) { return fma(x, y, sum); }
};

// Tiles by their number in the chunk, and what is fetched after each; null where nothing is.
struct TilesOfChunk {
  const std::byte* const* tiles;
  const std::byte* const* after;
};

// Nothing to fetch.
constexpr const std::byte* kNoTiles[kChunkTiles] = {};

template <DType kType>
RLGEN_INLINE const std::byte* widen(const std::byte* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 16) store(load_at<kType>(from, i), to + i);
  return reinterpret_cast<const std::byte*>(to);
}

// Fetches what a step loads in `vectors` vectors from element i on; `tile` may be null.
template <typename S>
RLGEN_INLINE void fetch(const std::byte* tile, int64_t i, int64_t width, int vectors) {
  if (tile == nullptr) return;
  const bool whole = vectors * 16 == width;
  const int bytes = vectors * 16 * S::kElement * (whole ? S::kRows : 1);
  for (int row = 0; row < (whole ? 1 : S::kRows); ++row) {
    const std::byte* const first = tile + (i + row * width) * S::kElement;
    for (int at = 0; at < bytes; at += 64) __builtin_prefetch(first + at, 0, 2);
  }
}

// How many of `left` rows go together.
RLGEN_INLINE int rows_together(int left) {
  if (left == 5) return 3;
  if (left == 7 || left == 8) return 4;
  return left < kBlockRows ? left : kBlockRows;
}

// f<R>() for R = rows.
template <typename F>
RLGEN_INLINE void with_rows(int rows, F f) {
  if (rows == 6) return f.template operator()<6>();
  if (rows == 4) return f.template operator()<4>();
  if (rows == 3) return f.template operator()<3>();
  if (rows == 2) return f.template operator()<2>();
  return f.template operator()<1>();
}

// Scores of R rows and T tiles, whose rows have `steps` vectors; score [R] with row stride
// kChunkKeys. Fetches `after` tile by tile.
template <typename S, int R, int T>
static void score_tiles(const float* const* q, TilesOfChunk keys, int64_t steps, float scale,
                        float* score) {
  F32x16 sum[R][T];
  RLGEN_UNROLL
  for (int r = 0; r < R; ++r) {
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) sum[r][t] = zero();
  }
  for (int64_t d = 0; d < steps; ++d) {
    typename S::Vector key[T];
    RLGEN_UNROLL
    for (int t = 0; t < T; ++t) {
      fetch<S>(keys.after[t], S::row_of(d) * kTileKeys, kTileKeys, 1);
      key[t] = S::load(keys.tiles[t], S::row_of(d) * kTileKeys, kTileKeys);
    }
    RLGEN_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename S::Vector query = S::broadcast_at(q[r] + d);
      RLGEN_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = S::add(query, key[t], sum[r][t]);
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

// value[r] += weight[r][step] * V[step] for steps from .. to - 1 in order: R rows, N vectors from
// dimension `at` on, of which the last has `lanes` lanes.
template <typename S, int R, int N, bool kWhole>
static void add_values(const ChunkPart& part, TilesOfChunk values, int row, int from, int to,
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
  for (int tile = from / S::kTileSteps; tile * S::kTileSteps < to; ++tile) {
    const int begin = tile * S::kTileSteps;
    const int stop = to - begin < S::kTileSteps ? to - begin : S::kTileSteps;
    const std::byte* const after = values.after[tile];
    for (int64_t step = from > begin ? from - begin : 0; step < stop; ++step) {
      const int64_t element = S::row_of(step) * value_dim + at;
      fetch<S>(after, element, value_dim, N);
      typename S::Vector row_of_values[N];
      RLGEN_UNROLL
      for (int v = 0; v < N; ++v) {
        row_of_values[v] = kWhole
                               ? S::load(values.tiles[tile], element + v * 16, value_dim)
                               : S::load_n(values.tiles[tile], element + v * 16, value_dim, lanes);
      }
      RLGEN_UNROLL
      for (int r = 0; r < R; ++r) {
        const typename S::Vector w = S::broadcast_at(weight + r * kChunkKeys + begin + step);
        RLGEN_UNROLL
        for (int v = 0; v < N; ++v) sum[r][v] = S::add(w, row_of_values[v], sum[r][v]);
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

// All dimensions of R rows that take every step from .. to - 1.
template <typename S, int R>
static void add_all_values(const ChunkPart& part, TilesOfChunk values, int row, int from, int to,
                           int64_t value_dim) {
  if (from >= to) return;
  int64_t at = 0;
  for (; at + 16 * kBlockVectors <= value_dim; at += 16 * kBlockVectors) {
    add_values<S, R, kBlockVectors, true>(part, values, row, from, to, value_dim, at, 16);
  }
  for (; at + 16 <= value_dim; at += 16) {
    add_values<S, R, 1, true>(part, values, row, from, to, value_dim, at, 16);
  }
  if (at == value_dim) return;
  for (int r = 0; r < R; ++r) {
    add_values<S, 1, 1, false>(part, values, row + r, from, to, value_dim, at, int(value_dim - at));
  }
}

}  // namespace rlgen::kernels::RLGEN_ISA
