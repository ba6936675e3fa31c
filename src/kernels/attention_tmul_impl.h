#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/attention_amx_impl.h"
#include "kernels/linear_tmul_impl.h"
#include "kernels/tile_registers.h"

// Attention with the products of the bfloat16_amx profile in tile registers: 32 rows at a time
// against tiles of keys, and against the blocks of values that all of them see whole. A tile is
// arranged for that once for up to 96 rows. Few rows, and what some rows see of a block alone, go
// as in attention_amx_impl.h.
namespace rlgen::kernels::RLGEN_ISA {

// Arranging costs as much as so many rows save.
constexpr int kFewRows = kBlockRows;

RLGEN_INLINE void shape_row_tiles(const RowGroup& group) {
  if (group.rows > kTileRows) {
    shape_two_row_tiles(kTileRows, group.rows - kTileRows);
  } else {
    shape_one_row_tile(group.rows);
  }
}

// Calls fn<row tiles, column tiles>().
template <typename F>
RLGEN_INLINE void with_tiles(const RowGroup& group, bool two_columns, F fn) {
  if (group.rows > kTileRows) {
    if (two_columns) return fn.template operator()<2, 2>();
    return fn.template operator()<2, 1>();
  }
  if (two_columns) return fn.template operator()<1, 2>();
  fn.template operator()<1, 1>();
}

// Calls fn(tile) for tiles begin .. end - 1 whose bit is not set, and sets it.
template <typename F>
RLGEN_INLINE void for_new_tiles(int begin, int end, uint32_t& done, F fn) {
  for (int tile = begin; tile < end; ++tile) {
    if ((done >> tile & 1) == 0) fn(tile);
    done |= uint32_t{1} << tile;
  }
}

// A tile of keys as blocks of 32 dimensions, filled with zeros.
static void arrange_keys(const KvLayout& layout, const std::byte* tile, float* to) {
  const int64_t pairs = (layout.head_dim + 1) / 2;
  const int64_t all = rounded_row_floats(layout) / 2;
  arrange_tile(tile, layout.head_dim, kTileKeys, to);
  memset(to + pairs * kTileKeys, 0, size_t((all - pairs) * kTileKeys) * sizeof(float));
}

static void multiply_tmul_keys(const KvLayout& layout, const RowGroup& group, ChunkPart& part) {
  const int64_t blocks = rounded_row_floats(layout) / kAmxBlock;
  const int64_t tile_floats = rounded_row_floats(layout) / 2 * kTileKeys;
  for_new_tiles(part.first_tile, part.end_tile, part.keys_done, [&](int tile) {
    arrange_keys(layout, part.keys[tile], part.arranged_keys + tile * tile_floats);
  });
  BlockOperands operands = {
      .x = reinterpret_cast<const char*>(part.operands),
      .x_stride = size_t(rounded_row_floats(layout)) * sizeof(float),
      .x_step = 64,
      .w = reinterpret_cast<const char*>(part.arranged_keys + part.first_tile * tile_floats),
      .w_stride = 64,
      .w_step = kBlockElements * int64_t(sizeof(uint16_t)),
      .w_right = tile_floats * int64_t(sizeof(float)),
  };
  for (int tile = part.first_tile; tile < part.end_tile; tile += 2) {
    with_tiles(group, tile + 1 < part.end_tile, [&]<int R, int C>() {
      zero_sums<R, C>();
      add_blocks<R, C>(operands, blocks);
      store_sums<R, C>(part.weight + tile * kTileKeys, kChunkKeys);
    });
    operands.w += 2 * operands.w_right;
  }
}

// Keys that all rows of the group can take together in tile registers.
RLGEN_INLINE KeyRange whole_blocks(const RowGroup& group, const ChunkPart& part,
                                   int64_t value_dim) {
  if (value_dim % 16 != 0) return {0, 0};
  const KeyRange shared = shared_keys(part, 0, group.rows);
  return {block_end(shared.from), block_begin(shared.to)};
}

static void add_whole_blocks(const RowGroup& group, ChunkPart& part, KeyRange shared,
                             int64_t value_dim) {
  const int64_t line = value_dim * int64_t(sizeof(float));
  for_new_tiles(shared.from / kTileKeys, shared.to / kTileKeys, part.values_done, [&](int tile) {
    arrange_tile(part.values[tile], kTileKeys, value_dim,
                 part.arranged_values + tile * kTileKeys / 2 * value_dim);
  });
  const float* const values = part.arranged_values + shared.from / 2 * value_dim;
  for (int64_t at = 0; at < value_dim; at += 32) {
    const BlockOperands operands = {
        .x = reinterpret_cast<const char*>(part.weight) + size_t(shared.from) * sizeof(uint16_t),
        .x_stride = kChunkKeys * sizeof(float),
        .x_step = 64,
        .w = reinterpret_cast<const char*>(values + at),
        .w_stride = size_t(line),
        .w_step = kTilePairs * line,
        .w_right = 64,
    };
    with_tiles(group, at + 16 < value_dim, [&]<int R, int C>() {
      load_sums<R, C>(part.value + at, value_dim);
      add_blocks<R, C>(operands, (shared.to - shared.from) / kAmxBlock);
      store_sums<R, C>(part.value + at, value_dim);
    });
  }
}

// In flush mode.
[[gnu::noinline]] static void multiply_tmul_values(const KvLayout& layout, const RowGroup& group,
                                                   ChunkPart& part) {
  const int64_t value_dim = layout.value_dim;
  const KeyRange shared = whole_blocks(group, part, value_dim);
  clear_values(group, part, value_dim);
  add_keys_before<HalfRows>(part, 0, group.rows, shared, value_dim);
  if (shared.from < shared.to) add_whole_blocks(group, part, shared, value_dim);
  add_keys_after<HalfRows>(part, 0, group.rows, shared, value_dim);
}

namespace {

struct TmulProducts {
  static constexpr bool kScales = false;
  static void score(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    multiply_tmul_keys(args.kv.layout, group, part);
  }
  RLGEN_INLINE void store_weights(F32x16 w, float* weight, int tile) {
    store_rounded(w, weight, tile);
  }
  static void add_values(const AttentionArgs& args, const RowGroup& group, ChunkPart& part) {
    in_flush_mode([&] { multiply_tmul_values(args.kv.layout, group, part); }, [] {});
  }
};

}  // namespace

// Groups that meet a chunk one after the other while its tiles lie arranged.
constexpr int kTmulGroups = 3;
constexpr int kTmulRows = 2 * kTileRows;

struct TmulTask {
  RowGroup groups[kTmulGroups];
  float* operands[kTmulGroups];  // rounded queries
  int count = 0;
  ChunkPart part;
};

RLGEN_INLINE int64_t tmul_scratch(const KvLayout& layout) {
  const int64_t value_dim = layout.value_dim;
  const int64_t key = rounded_row_floats(layout);
  return kLineFloats + kChunkKeys / 2 * (key + value_dim) + kTmulRows * (kChunkKeys + value_dim) +
         kTmulGroups * kTmulRows * (key + value_dim);
}

[[maybe_unused]] static int64_t attention_scratch_amx(const AttentionArgs& args,
                                                      const AttentionTask& task) {
  const int64_t few = attention_scratch(args, task);
  const int64_t many = tmul_scratch(args.kv.layout);
  return few > many ? few : many;
}

// Places the parts of a task in its scratch.
static void place_task(const KvLayout& layout, float* scratch, TmulTask& task) {
  const int64_t value_dim = layout.value_dim;
  const int64_t key = rounded_row_floats(layout);
  ChunkPart& part = task.part;
  part.arranged_keys = next_line(scratch);
  part.arranged_values = part.arranged_keys + kChunkKeys / 2 * key;
  part.weight = part.arranged_values + kChunkKeys / 2 * value_dim;
  float* next = part.weight + kTmulRows * kChunkKeys;
  part.value = next;
  next += kTmulRows * value_dim;
  for (int g = 0; g < kTmulGroups; ++g) {
    task.operands[g] = next;
    task.groups[g].value = next + kTmulRows * key;
    next += kTmulRows * (key + value_dim);
  }
}

// Makes rows from `first` of the task on the groups', with their queries rounded.
static void take_rows(const AttentionArgs& args, const AttentionSequence& sequence,
                      const AttentionTask& given, int64_t first, TmulTask& task) {
  const int64_t rows = rows_of(args, given);
  task.count = 0;
  for (; task.count < kTmulGroups && first < rows; ++task.count, first += kTmulRows) {
    RowGroup& group = task.groups[task.count];
    group.rows = 0;
    for (int64_t i = first; i < rows && i < first + kTmulRows; ++i) {
      add_row(args, sequence, given, i, &group);
    }
    task.part.operands = task.operands[task.count];
    round_queries(args.kv.layout, group, task.part, amx_operand);
  }
}

// Attends to the chunk that begins at key `begin`, one group after the other, and after each calls
// fn(its index, whether any of its rows sees the chunk) while task.part has its sums.
template <typename F>
RLGEN_INLINE void attend_tmul_chunk(const AttentionArgs& args, const AttentionSequence& sequence,
                                    int32_t kv_head, int64_t begin, TmulTask& task, F fn) {
  task.part.keys_done = task.part.values_done = 0;
  for (int g = 0; g < task.count; ++g) {
    const RowGroup& group = task.groups[g];
    const bool any = locate_chunk(args, sequence, kv_head, group, begin, &task.part);
    if (any) {
      task.part.operands = task.operands[g];
      shape_row_tiles(group);
      attend_chunk<TmulProducts>(args, group, task.part);
    }
    fn(g, any);
  }
}

static void attend_many(const AttentionArgs& args, const AttentionSequence& sequence,
                        const AttentionTask& given, int64_t first, TmulTask& task) {
  const int64_t value_dim = args.kv.layout.value_dim;
  take_rows(args, sequence, given, first, task);
  const RowGroup& last = task.groups[task.count - 1];
  const int64_t start = task.groups[0].first[0] / kChunkKeys * kChunkKeys;
  for (int64_t begin = start; begin < last.end[last.rows - 1]; begin += kChunkKeys) {
    attend_tmul_chunk(args, sequence, given.kv_head, begin, task, [&](int g, bool any) {
      if (any) merge_chunk(task.groups[g], task.part, value_dim);
    });
  }
  for (int g = 0; g < task.count; ++g) {
    for (int row = 0; row < task.groups[g].rows; ++row) finish_row(task.groups[g], row, value_dim);
  }
}

[[maybe_unused]] static void attention_amx(const AttentionArgs& args,
                                           const AttentionSequence& sequence,
                                           const AttentionTask& given, float* scratch) {
  const int64_t rows = rows_of(args, given);
  if (rows <= kFewRows) return attend_task<AmxProducts>(args, sequence, given, scratch);
  TmulTask task;
  place_task(args.kv.layout, scratch, task);
  for (int64_t first = 0; first < rows; first += kTmulGroups * kTmulRows) {
    attend_many(args, sequence, given, first, task);
  }
  release_tiles();
}

[[maybe_unused]] static void attention_chunks_amx(const AttentionArgs& args,
                                                  const AttentionSequence& sequence,
                                                  const AttentionTask& given, ChunkRange chunks,
                                                  float* scratch, float* sums) {
  const int64_t rows = rows_of(args, given);
  if (rows <= kFewRows) {
    return sum_task<AmxProducts>(args, sequence, given, chunks, scratch, sums);
  }
  const int64_t stride = chunk_sums_floats(args.kv.layout);
  TmulTask task;
  place_task(args.kv.layout, scratch, task);
  for (int64_t first = 0; first < rows; first += kTmulGroups * kTmulRows) {
    take_rows(args, sequence, given, first, task);
    for (int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
      const auto write = [&](int g, bool any) {
        const int64_t row = first + g * kTmulRows;
        write_chunk(args.kv.layout, task.groups[g], task.part, any, chunks.all,
                    sums + (row * chunks.all + chunk) * stride);
      };
      attend_tmul_chunk(args, sequence, given.kv_head, chunk * kChunkKeys, task, write);
    }
  }
  release_tiles();
}

}  // namespace rlgen::kernels::RLGEN_ISA
