#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/attention_chunk_impl.h"

// Attention over the paged cache: chunk by chunk, merged in order. Included once by each file of
// isa/; what the functions give is said in kernel_args.h, the numbers in docs/numbers.md.
namespace rlgen::kernels::RLGEN_ISA {

// exp of a single number, the same bits as in a vector.
RLGEN_INLINE float exp_one(float x) {
  float lanes[16];
  store(exp(broadcast(x)), lanes);
  return lanes[0];
}

// What one row has summed over one chunk alone.
struct RowSum {
  float max;
  float sum;
  const float* value;  // [value_dim]
};

// Adds a chunk's sums to those of the chunks before it. The first chunk is taken as it is.
static void merge_row(RowGroup& group, int row, const RowSum& chunk, int64_t value_dim) {
  float* total = group.value + row * value_dim;
  if (!group.started[row]) {
    group.started[row] = true;
    group.max[row] = chunk.max;
    group.sum[row] = chunk.sum;
    memcpy(total, chunk.value, size_t(value_dim) * sizeof(float));
    return;
  }
  const float largest = chunk.max > group.max[row] ? chunk.max : group.max[row];
  const float before = exp_one(group.max[row] - largest);
  const float now = exp_one(chunk.max - largest);
  group.max[row] = largest;
  group.sum[row] = group.sum[row] * before + chunk.sum * now;
  for (int64_t i = 0; i < value_dim; i += 16) {
    const int n = value_dim - i < 16 ? int(value_dim - i) : 16;
    const F32x16 added = load_n(chunk.value + i, n) * broadcast(now);
    store_n(fma(load_n(total + i, n), broadcast(before), added), total + i, n);
  }
}

// Adds a score that has no value to the sums of all chunks: a chunk of one key whose value is 0.
static void merge_sink(RowGroup& group, int row, int64_t value_dim) {
  const float sink = *group.sink[row];
  const float largest = sink > group.max[row] ? sink : group.max[row];
  const float before = exp_one(group.max[row] - largest);
  group.sum[row] = group.sum[row] * before + exp_one(sink - largest);
  float* total = group.value + row * value_dim;
  for (int64_t i = 0; i < value_dim; i += 16) {
    const int n = value_dim - i < 16 ? int(value_dim - i) : 16;
    store_n(load_n(total + i, n) * broadcast(before), total + i, n);
  }
}

static void finish_row(RowGroup& group, int row, int64_t value_dim) {
  if (group.sink[row] != nullptr) merge_sink(group, row, value_dim);
  const float* value = group.value + row * value_dim;
  for (int64_t i = 0; i < value_dim; i += 16) {
    const int n = value_dim - i < 16 ? int(value_dim - i) : 16;
    store_n(load_n(value + i, n) / broadcast(group.sum[row]), group.out[row] + i, n);
  }
}

// Keys and values of one KV head of one sequence, tile by tile.
struct TilesOfHead {
  const AttentionArgs& args;
  const AttentionSequence& sequence;
  int32_t kv_head;

  const std::byte* keys(int64_t tile) const {
    return block(tile) + row_in_block(tile) * size_t(args.kv.layout.head_dim) * element();
  }
  const std::byte* values(int64_t tile) const {
    if (args.kv.layout.values_in_keys) return keys(tile);
    return block(tile) + args.kv.layout.value_offset() +
           row_in_block(tile) * size_t(args.kv.layout.value_dim) * element();
  }

 private:
  int64_t tiles_in_block() const { return args.kv.layout.block_size / kTileKeys; }
  size_t element() const { return args.kv.layout.dtype == DType::kFloat32 ? 4 : 2; }
  size_t row_in_block(int64_t tile) const { return size_t(tile % tiles_in_block()) * kTileKeys; }
  const std::byte* block(int64_t tile) const {
    return args.kv.head(sequence.block_table[tile / tiles_in_block()], args.layer, kv_head);
  }
};

// The first key that a row at `position` sees.
RLGEN_INLINE int64_t first_seen(const AttentionArgs& args, int64_t position) {
  return args.window > 0 && position >= args.window ? position + 1 - args.window : 0;
}

// The `index`-th tile of keys that a row at `position` sees.
static const std::byte* tile_seen(const TilesOfHead& tiles, int64_t position, int64_t index) {
  const int64_t tile = first_seen(tiles.args, position) / kTileKeys + index;
  return tile * kTileKeys <= position ? tiles.keys(tile) : nullptr;
}

// What is read `past` tiles after the last of the group's own.
static const std::byte* tile_after(const AttentionArgs& args, const RowGroup& group, int64_t past) {
  if (group.then == nullptr) return nullptr;
  return tile_seen({args, *group.then, group.then_kv_head}, group.then->first_position, past);
}

// What is read after each tile: keys, then values, then the keys of the next chunk up to tile
// `last` of the sequence, then what comes after the group.
static void plan_fetches(const TilesOfHead& tiles, const RowGroup& group, int64_t first_of_chunk,
                         int64_t last, ChunkPart* part) {
  for (int tile = part->first_tile; tile < part->end_tile; ++tile) {
    const int past = tile + kAheadTiles - part->end_tile;
    const int after_keys = part->first_tile + past;
    part->after_keys[tile] = past < 0                      ? part->keys[tile + kAheadTiles]
                             : after_keys < part->end_tile ? part->values[after_keys]
                                                           : nullptr;
    const int64_t next = first_of_chunk + kChunkTiles + past;
    part->after_values[tile] = past < 0       ? part->values[tile + kAheadTiles]
                               : next <= last ? tiles.keys(next)
                                              : tile_after(tiles.args, group, past);
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
  const TilesOfHead tiles = {args, sequence, kv_head};
  part->first_tile = from / kTileKeys;
  part->end_tile = (to + kTileKeys - 1) / kTileKeys;
  for (int tile = part->first_tile; tile < part->end_tile; ++tile) {
    part->keys[tile] = tiles.keys(begin / kTileKeys + tile);
    part->values[tile] = tiles.values(begin / kTileKeys + tile);
    part->after_keys[tile] = part->after_values[tile] = nullptr;
  }
  if (group.rows <= kBlockRows && !args.kv.layout.values_in_keys) {
    const int64_t last = (group.end[group.rows - 1] - 1) / kTileKeys;
    plan_fetches(tiles, group, begin / kTileKeys, last, part);
  }
  return from < to;
}

// The sums of one row over one chunk in memory: [value_dim] values, padded to 16, then its maximum,
// its sum and 1 where the row sees any key of the chunk.
RLGEN_INLINE int64_t chunk_sums_floats(const KvLayout& layout) {
  return (layout.value_dim + 15) / 16 * 16 + 16;
}

// Adds the sums of a chunk to those of the chunks before it, where rows see any of it.
static void merge_chunk(RowGroup& group, const ChunkPart& part, int64_t value_dim) {
  for (int row = 0; row < group.rows; ++row) {
    if (part.from[row] >= part.to[row]) continue;
    const float* value = part.value + row * value_dim;
    merge_row(group, row, {part.max[row], part.sum[row], value}, value_dim);
  }
}

template <typename P>
static void attend_group(const AttentionArgs& args, const AttentionSequence& sequence,
                         int32_t kv_head, RowGroup& group, ChunkPart& part) {
  const int64_t value_dim = args.kv.layout.value_dim;
  // Positions rise along a group, so the first row begins first and the last ends last.
  const int64_t start = group.first[0] / kChunkKeys * kChunkKeys;
  for (int64_t begin = start; begin < group.end[group.rows - 1]; begin += kChunkKeys) {
    if (!locate_chunk(args, sequence, kv_head, group, begin, &part)) continue;
    attend_chunk<P>(args, group, part);
    merge_chunk(group, part, value_dim);
  }
  for (int row = 0; row < group.rows; ++row) finish_row(group, row, value_dim);
}

// Query heads of a task.
RLGEN_INLINE int64_t heads_of(const AttentionArgs& args, const AttentionTask& task) {
  return task.heads > 0 ? task.heads : args.heads / args.kv.layout.kv_heads;
}

// Makes row `index` of the task (position by position, the heads of each together) the next row of
// the group.
static void add_row(const AttentionArgs& args, const AttentionSequence& sequence,
                    const AttentionTask& task, int64_t index, RowGroup* group) {
  const KvLayout& layout = args.kv.layout;
  const int64_t heads = heads_of(args, task);
  const int64_t position_row = task.row_begin + index / heads;
  const int64_t sharing = args.heads / layout.kv_heads;
  const int64_t head = task.kv_head * sharing + task.first_head + index % heads;
  const int64_t position = sequence.first_position + position_row;
  const int row = group->rows++;
  const int64_t batch_row = sequence.first_row + position_row;
  group->q[row] = args.q + batch_row * args.ldq + head * layout.head_dim;
  group->out[row] = args.out + batch_row * args.ldo + head * layout.value_dim;
  group->sink[row] = args.sinks == nullptr ? nullptr : args.sinks + head;
  group->end[row] = position + 1;
  group->first[row] = first_seen(args, position);
  group->started[row] = false;
}

// The sums of every row of the group over one chunk alone, of which some row sees `any`; those of
// `all` chunks of a row stand together.
static void write_chunk(const KvLayout& layout, const RowGroup& group, const ChunkPart& part,
                        bool any, int64_t all, float* sums) {
  const int64_t stride = chunk_sums_floats(layout);
  for (int row = 0; row < group.rows; ++row) {
    float* to = sums + row * all * stride;
    float* flags = to + stride - 16;
    const bool seen = any && part.from[row] < part.to[row];
    flags[2] = seen ? 1.0f : 0.0f;
    if (!seen) continue;
    memcpy(to, part.value + row * layout.value_dim, size_t(layout.value_dim) * sizeof(float));
    flags[0] = part.max[row];
    flags[1] = part.sum[row];
  }
}

// The sums of every row of the group over each of the chunks alone; `sums` is that of its first row
// and of chunk `chunks.begin`.
template <typename P>
static void sum_chunks(const AttentionArgs& args, const AttentionSequence& sequence,
                       int32_t kv_head, const RowGroup& group, ChunkRange chunks, ChunkPart& part,
                       float* sums) {
  const int64_t stride = chunk_sums_floats(args.kv.layout);
  for (int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    const bool any = locate_chunk(args, sequence, kv_head, group, chunk * kChunkKeys, &part);
    if (any) attend_chunk<P>(args, group, part);
    write_chunk(args.kv.layout, group, part, any, chunks.all,
                sums + (chunk - chunks.begin) * stride);
  }
}

// Vectors of scratch that straddle two cache lines cost a fifth of the speed.
constexpr int64_t kLineFloats = 16;

RLGEN_INLINE float* next_line(float* p) {
  constexpr uintptr_t kLine = kLineFloats * sizeof(float);
  return p + (kLine - reinterpret_cast<uintptr_t>(p) % kLine) % kLine / sizeof(float);
}

// Floats of a row of q, or steps of a key, in rounded products.
RLGEN_INLINE int64_t rounded_row_floats(const KvLayout& layout) {
  return rounded_length(layout.head_dim);
}

RLGEN_INLINE int64_t widened_floats(const KvLayout& layout) {
  const int64_t key = rounded_row_floats(layout);
  return kValueTiles * kTileKeys * (key > layout.value_dim ? key : layout.value_dim);
}

RLGEN_INLINE int64_t edge_floats(const KvLayout& layout) {
  return kTileKeys * int64_t(layout.value_dim);
}

RLGEN_INLINE int64_t lane_floats(const KvLayout& layout) {
  return layout.values_in_keys ? kChunkKeys * kLaneRows : 0;
}

// Rows that go together.
RLGEN_INLINE int64_t group_rows(const KvLayout& layout) {
  return layout.values_in_keys ? kMostGroupRows : kGroupRows;
}

RLGEN_INLINE int64_t rows_of(const AttentionArgs& args, const AttentionTask& task) {
  return (task.row_end - task.row_begin) * heads_of(args, task);
}

[[maybe_unused]] static int64_t attention_scratch(const AttentionArgs& args,
                                                  const AttentionTask& task) {
  const KvLayout& layout = args.kv.layout;
  const int64_t all = rows_of(args, task);
  const int64_t together = all < group_rows(layout) ? all : group_rows(layout);
  return kLineFloats + widened_floats(layout) + lane_floats(layout) + edge_floats(layout) +
         together * (kChunkKeys + 2 * int64_t(layout.value_dim) + rounded_row_floats(layout));
}

// Calls fn(the first row's index in the task, group, part) for each group of rows of a task.
template <typename F>
RLGEN_INLINE void for_groups(const AttentionArgs& args, const AttentionSequence& sequence,
                             const AttentionTask& task, float* scratch, F fn) {
  const KvLayout& layout = args.kv.layout;
  const int64_t rows = rows_of(args, task);
  const int64_t most = group_rows(layout);
  for (int64_t done = 0; done < rows; done += most) {
    RowGroup group;
    ChunkPart part;
    for (int64_t i = done; i < rows && i < done + most; ++i) {
      add_row(args, sequence, task, i, &group);
    }
    if (done + most >= rows) {
      group.then = task.then;
      group.then_kv_head = task.then_kv_head;
    }
    part.widened = next_line(scratch);
    part.lane_weights = part.widened + widened_floats(layout);
    part.weight = part.lane_weights + lane_floats(layout);
    part.value = part.weight + int64_t(group.rows) * kChunkKeys;
    group.value = part.value + group.rows * int64_t(layout.value_dim);
    part.operands = group.value + group.rows * int64_t(layout.value_dim);
    part.edge = part.operands + group.rows * rounded_row_floats(layout);
    fn(done, group, part);
  }
}

// fn<type>() for the type of the cache.
template <typename F>
RLGEN_INLINE void with_kv_type(DType dtype, F fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn.template operator()<DType::kFloat32>();
    case DType::kBFloat16:
      return fn.template operator()<DType::kBFloat16>();
    default:
      return fn.template operator()<DType::kFloat16>();
  }
}

// What `attention` does, with products P.
template <typename P>
static void attend_task(const AttentionArgs& args, const AttentionSequence& sequence,
                        const AttentionTask& task, float* scratch) {
  for_groups(args, sequence, task, scratch, [&](int64_t, RowGroup& group, ChunkPart& part) {
    P::take_queries(args, group, part);
    attend_group<P>(args, sequence, task.kv_head, group, part);
  });
}

// What `attention_chunks` does, with products P.
template <typename P>
static void sum_task(const AttentionArgs& args, const AttentionSequence& sequence,
                     const AttentionTask& task, ChunkRange chunks, float* scratch, float* sums) {
  const int64_t stride = chunk_sums_floats(args.kv.layout);
  for_groups(args, sequence, task, scratch, [&](int64_t row, RowGroup& group, ChunkPart& part) {
    P::take_queries(args, group, part);
    sum_chunks<P>(args, sequence, task.kv_head, group, chunks, part,
                  sums + (row * chunks.all + chunks.begin) * stride);
  });
}

[[maybe_unused]] static void attention(const AttentionArgs& args, const AttentionSequence& sequence,
                                       const AttentionTask& task, float* scratch) {
  with_kv_type(args.kv.layout.dtype, [&]<DType kType>() {
    attend_task<PlainProducts<kType>>(args, sequence, task, scratch);
  });
}

[[maybe_unused]] static int64_t attention_sums(const AttentionArgs& args,
                                               const AttentionTask& task) {
  return rows_of(args, task) * chunk_sums_floats(args.kv.layout);
}

[[maybe_unused]] static void attention_chunks(const AttentionArgs& args,
                                              const AttentionSequence& sequence,
                                              const AttentionTask& task, ChunkRange chunks,
                                              float* scratch, float* sums) {
  with_kv_type(args.kv.layout.dtype, [&]<DType kType>() {
    sum_task<PlainProducts<kType>>(args, sequence, task, chunks, scratch, sums);
  });
}

[[maybe_unused]] static void attention_merge(const AttentionArgs& args,
                                             const AttentionSequence& sequence,
                                             const AttentionTask& task, ChunkRange chunks,
                                             float* scratch, const float* sums) {
  const int64_t value_dim = args.kv.layout.value_dim;
  const int64_t stride = chunk_sums_floats(args.kv.layout);
  for_groups(args, sequence, task, scratch, [&](int64_t first, RowGroup& group, ChunkPart&) {
    for (int row = 0; row < group.rows; ++row) {
      for (int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
        const float* value = sums + ((first + row) * chunks.all + chunk) * stride;
        const float* flags = value + stride - 16;
        if (flags[2] != 0.0f) merge_row(group, row, {flags[0], flags[1], value}, value_dim);
      }
      finish_row(group, row, value_dim);
    }
  });
}

}  // namespace rlgen::kernels::RLGEN_ISA
