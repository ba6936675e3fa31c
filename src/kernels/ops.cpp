#include "kernels/ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/scratch.h"
#include "kernels/row_ranges.h"

namespace rlgen::kernels {
namespace {

// What a run on the pool must be worth for each thread: waking one costs a few microseconds.
constexpr int64_t kSplitNanoseconds = 3000;
// What a task must be worth beyond one for each thread: each begins with weights that nobody has
// fetched ahead.
constexpr int64_t kTaskNanoseconds = 15000;
// Parts of several groups for each thread: enough to even out what others do to a core.
constexpr int64_t kPartsPerThread = 8;
// Rows of x whose pieces of k (kPanelDepth deep) stay in an L2 cache of 512 KiB beside the weights.
constexpr int64_t kLinearRowBlock = 256;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Cuts `units` of so many nanoseconds each for the threads, into parts that shrink towards the end,
// so that all threads end together whatever else runs on a core. Part i is [cut[i], cut[i + 1]).
std::vector<int64_t> cut_for_threads(int64_t units, int64_t nanoseconds, int64_t threads) {
  const int64_t least = std::max<int64_t>(1, kTaskNanoseconds / std::max<int64_t>(1, nanoseconds));
  std::vector<int64_t> cuts = {0};
  int64_t left = units;
  while (threads > 1 && left >= 2 * threads * least) {
    left -= divide_up(left, 2 * threads);
    cuts.push_back(units - left);
  }
  const int64_t most = std::max<int64_t>(1, left * nanoseconds / kSplitNanoseconds);
  for (int64_t parts = std::min({left, most, threads}); parts > 0; --parts) {
    left -= divide_up(left, parts);
    cuts.push_back(units - left);
  }
  return cuts;
}

// The longer of the arithmetic at 100 products and the reading at 40 bytes a nanosecond, which one
// core with AVX-512 does.
int64_t group_nanoseconds(const RowGroup& group) {
  const int64_t weights = group.w.n * group.w.k;
  return std::max(group.rows * weights / 100, weights * size_of(group.w.dtype) / 40);
}

// Column tiles of a task: a multiple of this, which suits every kernel well enough.
constexpr int64_t kTileUnit = 2;

RowGroup whole_group(const LinearArgs& args) {
  return {.w = args.w, .bias = args.bias, .rows = args.m};
}

GroupedArgs one_group(const LinearArgs& args, const RowGroup& group) {
  return {.x = args.x,
          .ldx = args.ldx,
          .groups = {&group, 1},
          .y = args.y,
          .ldy = args.ldy,
          .m = args.m};
}

// Elements between rows of k such that the same place of some rows lies in different lines of a
// cache: an odd number of lines.
int64_t spread_stride(int64_t k) { return (divide_up(k, 16) | 1) * 16; }

// Rows so far apart want the same few lines of a first-level cache.
bool rows_collide(const GroupedArgs& args) {
  constexpr int64_t kWayFloats = 4096 / sizeof(float);
  return args.m > 4 && args.ldx % kWayFloats == 0;
}

// The same product with x as the profile's kernel reads it, row by row: in floats of the calling
// thread, until it asks again.
GroupedArgs with_operand(const KernelContext& context, const GroupedArgs& args) {
  const bool rounds = context.profile != Profile::kFloat32;
  const bool copies = rounds || args.source != nullptr || rows_collide(args);
  if (args.m <= 0 || !copies) return args;
  thread_local std::vector<float> scratch;
  const int64_t k = args.groups[0].w.k;
  GroupedArgs made = args;
  made.ldx = spread_stride(k);
  made.source = nullptr;
  float* const operand = grown(scratch, args.m * made.ldx);
  for_row_ranges(context, args.m, k, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = args.x + (args.source == nullptr ? row : args.source[row]) * args.ldx;
      float* to = operand + row * made.ldx;
      if (rounds) {
        context.table->bf16_operand(from, k, to);
      } else {
        std::memcpy(to, from, size_t(k) * sizeof(float));
      }
    }
  });
  made.x = operand;
  return made;
}

// Rows of a product that share a group, and some column tiles.
struct Block {
  const RowGroup* group;
  int64_t row;
  int64_t rows;
  int64_t tile_begin;
  int64_t tile_end;
};

float* first_output(const GroupedArgs& args, const Block& block) {
  const RowGroup& group = *block.group;
  if (group.y != nullptr) return group.y + (block.row - group.row) * args.ldy;
  return args.y + block.row * args.ldy;
}

void multiply(const KernelContext& context, const GroupedArgs& args, const Block& block,
              int64_t first_tile = 0) {
  const LinearArgs part = {.x = args.x + block.row * args.ldx,
                           .ldx = args.ldx,
                           .w = block.group->w,
                           .bias = block.group->bias,
                           .y = first_output(args, block),
                           .ldy = args.ldy,
                           .m = block.rows};
  const int64_t begin = first_tile + block.tile_begin;
  const int64_t end = first_tile + block.tile_end;
  if (context.profile == Profile::kFloat32) return context.table->linear(part, begin, end);
  const ScopedFloatMode flush(FloatMode::kFlush);
  context.table->linear_bf16(part, begin, end);
}

OutputBlock output_block(const Block& block, int64_t n) {
  const int64_t column = block.tile_begin * 16;
  return {.row = block.row,
          .rows = block.rows,
          .column = column,
          .columns = std::min(n, block.tile_end * 16) - column};
}

// Where the threads cut the columns of groups: `units` of kTileUnit tiles or more, all in one
// order.
struct ColumnUnits {
  int64_t tiles_at_once;
  int64_t tiles;
  int64_t units;

  ColumnUnits(int64_t n, int64_t unit)
      : tiles_at_once(std::lcm(kTileUnit, std::lcm(unit, int64_t{16}) / 16)),
        tiles(divide_up(n, 16)),
        units(divide_up(tiles, tiles_at_once)) {}
};

int64_t row_blocks_of(const RowGroup& group) { return divide_up(group.rows, kLinearRowBlock); }

// The cuts of one of several groups, into parts of about `part` nanoseconds.
std::vector<int64_t> cut_evenly(const RowGroup& group, int64_t units, int64_t part) {
  const int64_t wanted = group_nanoseconds(group) / (part * row_blocks_of(group));
  const int64_t parts = std::clamp<int64_t>(wanted, 1, units);
  std::vector<int64_t> cuts;
  for (int64_t i = 0; i <= parts; ++i) cuts.push_back(units * i / parts);
  return cuts;
}

// Adds the blocks of a group: all its rows, and its columns as they are cut.
void add_blocks(const RowGroup& group, const ColumnUnits& columns, const std::vector<int64_t>& cuts,
                std::vector<Block>* blocks) {
  const int64_t row_blocks = row_blocks_of(group);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (int64_t part = 0; part < row_blocks; ++part) {
      const int64_t begin = group.rows * part / row_blocks;
      const int64_t end = group.rows * (part + 1) / row_blocks;
      blocks->push_back({.group = &group,
                         .row = group.row + begin,
                         .rows = end - begin,
                         .tile_begin = cuts[i] * columns.tiles_at_once,
                         .tile_end = std::min(columns.tiles, cuts[i + 1] * columns.tiles_at_once)});
    }
  }
}

// All blocks of a product in the order in which they are claimed.
void plan_blocks(const KernelContext& context, std::span<const RowGroup> groups,
                 const ColumnUnits& columns, std::vector<Block>* blocks) {
  const int64_t threads = context.pool->num_threads();
  blocks->clear();
  if (groups.size() == 1) {
    const int64_t pieces = columns.units * row_blocks_of(groups[0]);
    return add_blocks(
        groups[0], columns,
        cut_for_threads(columns.units, group_nanoseconds(groups[0]) / pieces, threads), blocks);
  }
  int64_t nanoseconds = 0;
  for (const RowGroup& group : groups) nanoseconds += group_nanoseconds(group);
  const int64_t part = std::max(kTaskNanoseconds, nanoseconds / (threads * kPartsPerThread));
  for (const RowGroup& group : groups) {
    add_blocks(group, columns,
               cut_evenly(group, columns.units, threads == 1 ? nanoseconds + 1 : part), blocks);
  }
}

// Runs fn(the product as the kernel reads it, block) over all rows and the tiles of the first n
// columns, cut at multiples of `unit` columns.
template <typename F>
void split_product(const KernelContext& context, const GroupedArgs& given, int64_t n, int64_t unit,
                   F fn) {
  if (given.m <= 0) return;
  const GroupedArgs args = with_operand(context, given);
  thread_local std::vector<Block> planned;
  plan_blocks(context, args.groups, ColumnUnits(n, unit), &planned);
  const std::span<const Block> blocks = planned;  // tasks run on other threads too
  context.pool->run(int64_t(blocks.size()),
                    [&](int64_t task, int) { fn(args, blocks[size_t(task)]); });
}

void run_product(const KernelContext& context, const GroupedArgs& args, int64_t unit,
                 Finish finish) {
  if (args.m <= 0) return;
  const int64_t n = args.groups[0].w.n;
  split_product(context, args, n, unit, [&](const GroupedArgs& product, const Block& block) {
    multiply(context, product, block);
    finish(output_block(block, n));
  });
}

// The `n` elements of one row.
void activate(const KernelTable& table, const Gating& gating, const float* gate, const float* up,
              int64_t n, float* out) {
  switch (gating.activation) {
    case Activation::kSilu:
      return table.silu_mul(gate, up, n, out);
    case Activation::kGeluTanh:
      return table.gelu_tanh_mul(gate, up, n, out);
    case Activation::kClampedSwiglu:
      return table.clamped_swiglu(gate, up, n, gating.alpha, gating.limit, out);
  }
}

}  // namespace

std::string_view profile_name(Profile profile) {
  return profile == Profile::kFloat32 ? "float32" : "bfloat16";
}

std::optional<Profile> parse_profile(std::string_view name) {
  for (const Profile profile : {Profile::kFloat32, Profile::kBFloat16}) {
    if (name == profile_name(profile)) return profile;
  }
  return std::nullopt;
}

void linear(const KernelContext& context, const LinearArgs& args, int64_t unit, Finish finish) {
  const RowGroup group = whole_group(args);
  run_product(context, one_group(args, group), unit, finish);
}

void linear(const KernelContext& context, const LinearArgs& args) {
  linear(context, args, 1, [](const OutputBlock&) {});
}

void grouped_linear(const KernelContext& context, const GroupedArgs& args) {
  run_product(context, args, 1, [](const OutputBlock&) {});
}

void linear_add(const KernelContext& context, const LinearArgs& args, float* sum) {
  linear(context, args, 1, [&](const OutputBlock& block) {
    for (int64_t r = block.row; r < block.row + block.rows; ++r) {
      const int64_t at = r * args.ldy + block.column;
      context.table->add(sum + at, args.y + at, block.columns);
    }
  });
}

void rms_norm(const KernelContext& context, const float* x, int64_t rows, int64_t n,
              const float* weight, float eps, float* out) {
  for_row_ranges(context, rows, n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      context.table->rms_norm(x + r * n, weight, n, eps, out + r * n);
    }
  });
}

void grouped_gated_linear(const KernelContext& context, const GroupedArgs& args,
                          const Gating& gating, float* out) {
  if (args.m <= 0) return;
  const int64_t n = args.groups[0].w.n / 2;
  const auto finish = [&](const OutputBlock& block) {
    for (int64_t r = block.row; r < block.row + block.rows; ++r) {
      const float* gate = args.y + r * args.ldy + block.column;
      activate(*context.table, gating, gate, gate + n, block.columns, out + r * n + block.column);
    }
  };
  if (n % 16 != 0) {
    grouped_linear(context, args);
    return for_row_ranges(context, args.m, n, 1 << 13, [&](int64_t begin, int64_t end) {
      finish({.row = begin, .rows = end - begin, .column = 0, .columns = n});
    });
  }
  split_product(context, args, n, 1, [&](const GroupedArgs& product, const Block& block) {
    multiply(context, product, block);
    multiply(context, product, block, n / 16);
    finish(output_block(block, n));
  });
}

void gated_linear(const KernelContext& context, const LinearArgs& args, const Gating& gating,
                  float* out) {
  const RowGroup group = whole_group(args);
  grouped_gated_linear(context, one_group(args, group), gating, out);
}

}  // namespace rlgen::kernels
