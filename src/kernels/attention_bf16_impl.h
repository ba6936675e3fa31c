#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/attention_impl.h"
#include "kernels/linear_bf16_impl.h"

// Attention with the products of the bfloat16 profile over a cache of bfloat16: q and the weights
// are rounded, and pairs of dimensions, then of keys, go as in linear_bf16_impl.h. A tile is
// arranged for that once for all rows of a group. Numbers: docs/numbers.md.
namespace rlgen::kernels::RLGEN_ISA {

#if defined(RLGEN_BF16_DOT)

// A step is a pair.
constexpr int kPairSteps = 1;

struct RoundedSteps {
  using Vector = Bf16Pairs;
  static constexpr int kTileSteps = kTileKeys / 2;
  static constexpr int kRows = 1;
  static constexpr int kElement = 4;
  RLGEN_INLINE int64_t row_of(int64_t step) { return step; }
  RLGEN_INLINE Vector load(const std::byte* tile, int64_t i, int64_t) {
    return load_pairs(reinterpret_cast<const uint16_t*>(tile) + 2 * i);
  }
  RLGEN_INLINE Vector load_n(const std::byte* tile, int64_t i, int64_t, int n) {
    return load_pairs_n(reinterpret_cast<const uint16_t*>(tile) + 2 * i, n);
  }
  RLGEN_INLINE Vector broadcast_at(const float* x) { return broadcast_pair(x); }
  RLGEN_INLINE F32x16 add(Vector x, Vector y, F32x16 sum) { return add_dot(x, y, sum); }
};

// Of tiles as they are stored.
struct StoredSteps : RoundedSteps {
  static constexpr int kRows = 2;
  static constexpr int kElement = 2;
  RLGEN_INLINE int64_t row_of(int64_t step) { return 2 * step; }
  RLGEN_INLINE Vector load(const std::byte* tile, int64_t i, int64_t width) {
    return load_n(tile, i, width, 16);
  }
  RLGEN_INLINE Vector load_n(const std::byte* tile, int64_t i, int64_t width, int n) {
    const auto* even = reinterpret_cast<const uint16_t*>(tile) + i;
    return interleave(load_halves_n(even, n), load_halves_n(even + width, n));
  }
};

// Rows `even` and `odd` of n elements as one step; a null one is zeros.
RLGEN_INLINE void arrange_pair(const uint16_t* even, const uint16_t* odd, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? int(n - i) : 16;
    const auto row = [&](const uint16_t* p) {
      return p == nullptr ? _mm256_setzero_si256() : load_halves_n(p + i, lanes);
    };
    const F32x16 pairs = pair_bits(interleave(row(even), row(odd)));
    if (lanes == 16) {
      store(pairs, to + i);
    } else {
      store_n(pairs, to + i, lanes);
    }
  }
}

// Weights of a tile as pairs, over scores that have been read. exp gives no subnormal number.
RLGEN_INLINE void store_rounded(F32x16 w, float* weight, int tile) {
  store_normal_bf16(w, reinterpret_cast<uint16_t*>(weight) + tile * kTileKeys);
}

#else

// The odd element of a pair is one step, the even one the next.
constexpr int kPairSteps = 2;

using RoundedSteps = PlainSteps<DType::kFloat32>;

// Of tiles as they are stored.
struct StoredSteps : PlainSteps<DType::kBFloat16> {
  RLGEN_INLINE int64_t row_of(int64_t step) { return step ^ 1; }
};

RLGEN_INLINE void arrange_row(const uint16_t* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? int(n - i) : 16;
    if (lanes == 16) {
      store(from == nullptr ? zero() : load_bf16(from + i), to + i);
    } else {
      store_n(from == nullptr ? zero() : load_bf16_n(from + i, lanes), to + i, lanes);
    }
  }
}

// Rows `even` and `odd` of n elements as two steps; a null one is zeros.
RLGEN_INLINE void arrange_pair(const uint16_t* even, const uint16_t* odd, int64_t n, float* to) {
  arrange_row(odd, n, to);
  arrange_row(even, n, to + n);
}

// Weights of a tile as steps.
RLGEN_INLINE void store_rounded(F32x16 w, float* weight, int tile) {
  uint16_t half[kTileKeys];
  uint16_t swapped[kTileKeys];
  store_bf16(w, half);
  RLGEN_UNROLL
  for (int i = 0; i < kTileKeys; ++i) swapped[i] = half[i ^ 1];
  store(load_bf16(swapped), weight + tile * kTileKeys);
}

#endif

// A tile of `rows` rows of n elements as steps.
RLGEN_INLINE const std::byte* arrange_tile(const std::byte* tile, int64_t rows, int64_t n,
                                           float* to) {
  const auto* row = reinterpret_cast<const uint16_t*>(tile);
  float* step = to;
  for (int64_t r = 0; r < rows; r += 2, row += 2 * n, step += kPairSteps * n) {
    arrange_pair(row, r + 1 < rows ? row + n : nullptr, n, step);
  }
  return reinterpret_cast<const std::byte*>(to);
}

RLGEN_INLINE int64_t key_steps(const KvLayout& layout) {
  return int64_t(layout.head_dim + 1) / 2 * kPairSteps;
}

// In flush mode: scores of all rows of the group. A few rows read tiles as they are stored.
[[gnu::noinline]] static void multiply_keys(const KvLayout& layout, const RowGroup& group,
                                            const ChunkPart& part, float scale) {
  const int64_t steps = key_steps(layout);
  const bool stored = group.rows <= kBlockRows && layout.head_dim % 2 == 0;
  for (int tile = part.first_tile; tile < part.end_tile; tile += kBlockVectors) {
    const int end = smaller(tile + kBlockVectors, part.end_tile);
    if (stored) {
      score_blocks<StoredSteps>(group, part, {part.keys, part.after_keys}, tile, end, steps, scale);
      continue;
    }
    const std::byte* keys[kChunkTiles];
    for (int t = tile; t < end; ++t) {
      float* to = part.widened + (t - tile) * steps * kTileKeys;
      keys[t] = arrange_tile(part.keys[t], layout.head_dim, kTileKeys, to);
    }
    score_blocks<RoundedSteps>(group, part, {keys, kNoTiles}, tile, end, steps, scale);
  }
}

// The values of the pairs of which rows see one key alone: the first or the last key of each row.
template <typename F>
RLGEN_INLINE void add_edges(const RowGroup& group, const ChunkPart& part, int64_t value_dim,
                            F edge_key) {
  int arranged = -1;
  for (int row = 0; row < group.rows; ++row) {
    const int key = edge_key(row);
    if (part.from[row] >= part.to[row] || key < 0) continue;
    const int tile = key / kTileKeys;
    const int step = key / 2 * kPairSteps;
    if (key != arranged) {
      const auto* values = reinterpret_cast<const uint16_t*>(part.values[tile]);
      const uint16_t* const seen_row = values + key % kTileKeys * value_dim;
      const bool odd = key % 2 != 0;
      arrange_pair(odd ? nullptr : seen_row, odd ? seen_row : nullptr, value_dim,
                   part.edge + step % RoundedSteps::kTileSteps * value_dim);
      arranged = key;
    }
    const std::byte* tiles[kChunkTiles];
    tiles[tile] = reinterpret_cast<const std::byte*>(part.edge);
    add_all_values<RoundedSteps, 1>(part, {tiles, kNoTiles}, row, step, step + kPairSteps,
                                    value_dim);
  }
}

// Pairs of which rows see both keys.
static void add_whole_pairs(const RowGroup& group, const ChunkPart& part, RowSteps steps,
                            int64_t value_dim) {
  for (int tile = part.first_tile; tile < part.end_tile; tile += kValueTiles) {
    const int end = smaller(tile + kValueTiles, part.end_tile);
    if (group.rows <= kBlockRows) {
      add_value_blocks<StoredSteps>(group, part, {part.values, part.after_values}, steps, tile, end,
                                    value_dim);
      continue;
    }
    const std::byte* values[kChunkTiles];
    for (int t = tile; t < end; ++t) {
      float* to = part.widened + (t - tile) * kTileKeys * value_dim;
      values[t] = arrange_tile(part.values[t], kTileKeys, value_dim, to);
    }
    add_value_blocks<RoundedSteps>(group, part, {values, kNoTiles}, steps, tile, end, value_dim);
  }
}

// In flush mode: values of all rows of the group. Whole pairs go together; a pair of which a row
// sees one key alone is arranged anew without the other.
[[gnu::noinline]] static void multiply_values(const KvLayout& layout, const RowGroup& group,
                                              const ChunkPart& part) {
  const int64_t value_dim = layout.value_dim;
  memset(part.value, 0, size_t(group.rows) * size_t(value_dim) * sizeof(float));
  int from[kMostGroupRows];
  int to[kMostGroupRows];
  for (int row = 0; row < group.rows; ++row) {
    from[row] = (part.from[row] + 1) / 2 * kPairSteps;
    to[row] = part.to[row] / 2 * kPairSteps;
  }
  add_edges(group, part, value_dim,
            [&](int row) { return part.from[row] % 2 != 0 ? part.from[row] : -1; });
  add_whole_pairs(group, part, {from, to}, value_dim);
  add_edges(group, part, value_dim,
            [&](int row) { return part.to[row] % 2 != 0 ? part.to[row] - 1 : -1; });
}

// The same step by step, for in_flush_mode.
[[maybe_unused]] static void multiply_keys_exactly(const KvLayout& layout, const RowGroup& group,
                                                   const ChunkPart& part) {
  for (int row = 0; row < group.rows; ++row) {
    const float* q = group.q[row];
    for (int key = part.from[row]; key < part.to[row]; ++key) {
      const auto* tile = reinterpret_cast<const uint16_t*>(part.keys[key / kTileKeys]);
      const uint16_t* lane = tile + key % kTileKeys;
      float sum = 0.0f;
      for (int64_t d = 0; d < layout.head_dim; d += 2) {
        const bool whole = d + 1 < layout.head_dim;
        sum = exact_step(q[d], whole ? bf16_value(lane[(d + 1) * kTileKeys]) : 0.0f, sum);
        sum = exact_step(q[d + 1], bf16_value(lane[d * kTileKeys]), sum);
      }
      part.weight[row * kChunkKeys + key] = sum;
    }
  }
}

[[maybe_unused]] static void multiply_values_exactly(const KvLayout& layout, const RowGroup& group,
                                                     const ChunkPart& part) {
  const auto element = [&](int key, int64_t e) {
    const auto* tile = reinterpret_cast<const uint16_t*>(part.values[key / kTileKeys]);
    return bf16_value(tile[key % kTileKeys * layout.value_dim + e]);
  };
  for (int row = 0; row < group.rows; ++row) {
    const float* weight = part.weight + row * kChunkKeys;
    for (int64_t e = 0; e < layout.value_dim; ++e) {
      float sum = 0.0f;
      for (int key = part.from[row] / 2 * 2; key < part.to[row]; key += 2) {
        const bool odd = key + 1 < part.to[row];
        const bool even = key >= part.from[row];
        sum = exact_step(odd ? weight[key] : 0.0f, odd ? element(key + 1, e) : 0.0f, sum);
        sum = exact_step(even ? weight[key + 1] : 0.0f, even ? element(key, e) : 0.0f, sum);
      }
      part.value[row * layout.value_dim + e] = sum;
    }
  }
}

// Whether products flush by themselves and leave other arithmetic alone, as the instruction does.
#if defined(RLGEN_BF16_DOT) && !defined(RLGEN_EMULATE_AVX512)
constexpr bool kFlushesItself = true;
#else
constexpr bool kFlushesItself = false;
#endif

// Makes operands of the queries, as `operand` makes them, and puts them in the place of the given
// ones.
[[maybe_unused]] static void round_queries(const KvLayout& layout, RowGroup& group,
                                           const ChunkPart& part,
                                           void (*operand)(const float*, int64_t, float*)) {
  for (int row = 0; row < group.rows; ++row) {
    float* const rounded = part.operands + row * rounded_row_floats(layout);
    operand(group.q[row], layout.head_dim, rounded);
    group.q[row] = rounded;
  }
}

// Of this file alone: another instruction set has its own under this name.
namespace {

struct RoundedProducts {
  static constexpr bool kScales = kFlushesItself;
  static void take_queries(const AttentionArgs& args, RowGroup& group, const ChunkPart& part) {
    round_queries(args.kv.layout, group, part, bf16_operand);
  }
  static void score(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    const KvLayout& layout = args.kv.layout;
    if constexpr (kFlushesItself) return multiply_keys(layout, group, part, args.scale);
    in_flush_mode([&] { multiply_keys(layout, group, part, 1.0f); },
                  [&] { multiply_keys_exactly(layout, group, part); });
  }
  RLGEN_INLINE void store_weights(F32x16 w, float* weight, int tile) {
    store_rounded(w, weight, tile);
  }
  static void add_values(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    const KvLayout& layout = args.kv.layout;
    if constexpr (kFlushesItself) return multiply_values(layout, group, part);
    in_flush_mode([&] { multiply_values(layout, group, part); },
                  [&] { multiply_values_exactly(layout, group, part); });
  }
};

}  // namespace

[[maybe_unused]] static void attention_bf16(const AttentionArgs& args,
                                            const AttentionSequence& sequence,
                                            const AttentionTask& task, float* scratch) {
  attend_task<RoundedProducts>(args, sequence, task, scratch);
}

[[maybe_unused]] static void attention_chunks_bf16(const AttentionArgs& args,
                                                   const AttentionSequence& sequence,
                                                   const AttentionTask& task, ChunkRange chunks,
                                                   float* scratch, float* sums) {
  sum_task<RoundedProducts>(args, sequence, task, chunks, scratch, sums);
}

}  // namespace rlgen::kernels::RLGEN_ISA
