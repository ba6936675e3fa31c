#include "kernels/ops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/scratch.h"
#include "kernels/product_blocks.h"
#include "kernels/row_ranges.h"

namespace rlgen::kernels {
namespace {

// Gate and up that a thread makes before it makes one of them: 256 KiB stay in an L2 cache of 512
// KiB.
constexpr int64_t kGateFloats = 1 << 16;

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
int64_t spread_stride(int64_t k) { return ((k + 15) / 16 | 1) * 16; }

int64_t operand_stride(const KernelContext& context, int64_t k) {
  if (context.profile == Profile::kFloat32) return spread_stride(k);
  const RoundedKernels& kernels = rounded_kernels(*context.table, context.profile);
  return spread_stride(rounded_length(k) * kernels.operand_bytes / int64_t{sizeof(float)});
}

// As grown(), at the begin of a cache line: rows of an operand are read line by line.
float* grown_lines(std::vector<float>& scratch, int64_t floats) {
  constexpr uintptr_t kLine = 64;
  float* const first = grown(scratch, floats + int64_t{kLine / sizeof(float)});
  return first + (kLine - reinterpret_cast<uintptr_t>(first) % kLine) % kLine / sizeof(float);
}

// Rows so far apart want the same few lines of a first-level cache.
bool rows_collide(const GroupedArgs& args) {
  constexpr int64_t kWayFloats = 4096 / sizeof(float);
  return args.m > 4 && args.ldx % kWayFloats == 0;
}

// Whether the profile's kernel reads other rows than those of x.
bool makes_operand(const KernelContext& context, const GroupedArgs& args) {
  return context.profile != Profile::kFloat32 || args.source != nullptr || rows_collide(args);
}

// Rows [begin, end) of the product as the profile's kernel reads them: row r at to + r * stride.
void make_operand(const KernelContext& context, const GroupedArgs& args, int64_t begin, int64_t end,
                  int64_t stride, float* to) {
  const int64_t k = args.groups[0].w.k;
  for (int64_t row = begin; row < end; ++row, to += stride) {
    const float* from = args.x + (args.source == nullptr ? row : args.source[row]) * args.ldx;
    if (context.profile != Profile::kFloat32) {
      rounded_kernels(*context.table, context.profile).operand(from, k, to);
    } else {
      std::memcpy(to, from, size_t(k) * sizeof(float));
    }
  }
}

// The same product with all rows of x as the kernel reads them: in floats of the calling thread,
// until it asks again.
GroupedArgs with_operand(const KernelContext& context, const GroupedArgs& args) {
  thread_local std::vector<float> scratch;
  const int64_t k = args.groups[0].w.k;
  GroupedArgs made = args;
  made.ldx = operand_stride(context, k);
  made.source = nullptr;
  float* const operand = grown_lines(scratch, args.m * made.ldx);
  for_row_ranges(context, args.m, k, 1 << 15, [&](int64_t begin, int64_t end) {
    make_operand(context, args, begin, end, made.ldx, operand + begin * made.ldx);
  });
  made.x = operand;
  return made;
}

float* first_output(const GroupedArgs& args, const Block& block) {
  const RowGroup& group = *block.group;
  if (group.y != nullptr) return group.y + (block.row - group.row) * args.ldy;
  return args.y + block.row * args.ldy;
}

void multiply(const KernelContext& context, const LinearArgs& args, int64_t begin, int64_t end) {
  if (context.profile == Profile::kFloat32) return context.table->linear(args, begin, end);
  const ScopedFloatMode flush(FloatMode::kFlush);
  rounded_kernels(*context.table, context.profile).linear(args, begin, end);
}

void multiply(const KernelContext& context, const GroupedArgs& args, const Block& block) {
  multiply(context,
           {.x = block.x,
            .ldx = block.ldx,
            .w = block.group->w,
            .bias = block.group->bias,
            .y = first_output(args, block),
            .ldy = args.ldy,
            .m = block.rows},
           block.tile_begin, block.tile_end);
}

OutputBlock output_block(const Block& block, int64_t n) {
  const int64_t column = block.tile_begin * 16;
  return {.row = block.row,
          .rows = block.rows,
          .column = column,
          .columns = std::min(n, block.tile_end * 16) - column};
}

// Whether each block makes its own operand, which its thread then has in its cache: of several
// groups, where few blocks share rows.
bool operand_by_block(const GroupedArgs& args, std::span<const Block> blocks) {
  int64_t rows = 0;
  for (const Block& block : blocks) rows += block.rows;
  return args.groups.size() > 1 && rows <= 2 * args.m;
}

// The block with its rows as the kernel reads them; `made`: as args has them, else in floats of the
// calling thread, until it asks again.
Block with_rows(const KernelContext& context, const GroupedArgs& args, Block block, bool made) {
  if (made) {
    block.x = args.x + block.row * args.ldx;
    block.ldx = args.ldx;
    return block;
  }
  thread_local std::vector<float> scratch;
  block.ldx = operand_stride(context, block.group->w.k);
  float* const operand = grown_lines(scratch, block.rows * block.ldx);
  make_operand(context, args, block.row, block.row + block.rows, block.ldx, operand);
  block.x = operand;
  return block;
}

// Runs fn(the product, block with its rows) over all rows and the tiles of the first n columns, cut
// at multiples of `unit` columns.
template <typename F>
void split_product(const KernelContext& context, const GroupedArgs& given, int64_t n, int64_t unit,
                   F fn) {
  if (given.m <= 0) return;
  thread_local std::vector<Block> planned;
  plan_blocks(context, given.groups, ColumnUnits(n, unit), &planned);
  const std::span<const Block> blocks = planned;  // tasks run on other threads too
  const bool makes = makes_operand(context, given);
  const bool by_block = makes && operand_by_block(given, blocks);
  const GroupedArgs args = makes && !by_block ? with_operand(context, given) : given;
  context.pool->run(int64_t(blocks.size()), [&](int64_t task, int) {
    fn(args, with_rows(context, args, blocks[size_t(task)], !by_block));
  });
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

// Tiles [begin, end) as a matrix of their own, and so their bias.
RowGroup columns_of(const RowGroup& group, int64_t begin, int64_t end) {
  RowGroup part = group;
  part.w.data += packed_bytes(group.w.dtype, begin * 16, group.w.k);
  part.w.n = std::min(group.w.n, end * 16) - begin * 16;
  if (part.bias != nullptr) part.bias += begin * 16;
  return part;
}

// A block of a gated layer with n columns, a multiple of 16. Gate and up are in floats of the
// calling thread, which its cache keeps.
void gate_block(const KernelContext& context, const Gating& gating, int64_t n, const Block& block,
                float* out) {
  thread_local std::vector<float> scratch;
  const int64_t tiles = block.tile_end - block.tile_begin;
  const int64_t columns = tiles * 16;
  float* const y = grown(scratch, block.rows * 2 * columns);
  for (const int64_t half : {int64_t{0}, n / 16}) {
    const int64_t begin = half + block.tile_begin;
    const RowGroup part = columns_of(*block.group, begin, begin + tiles);
    multiply(context,
             {.x = block.x,
              .ldx = block.ldx,
              .w = part.w,
              .bias = part.bias,
              .y = y + (half == 0 ? 0 : columns),
              .ldy = 2 * columns,
              .m = block.rows},
             0, tiles);
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* const gate = y + row * 2 * columns;
    activate(*context.table, gating, gate, gate + columns, columns,
             out + (block.row + row) * n + block.tile_begin * 16);
  }
}

// The same of all rows, where gate and up share a tile.
void gate_whole_rows(const KernelContext& context, GroupedArgs args, const Gating& gating,
                     float* out) {
  thread_local std::vector<float> scratch;
  const int64_t n = args.groups[0].w.n / 2;
  args.ldy = 2 * n;
  args.y = grown(scratch, args.m * args.ldy);
  run_product(context, args, 1, [](const OutputBlock&) {});
  for_row_ranges(context, args.m, n, 1 << 13, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const gate = args.y + row * args.ldy;
      activate(*context.table, gating, gate, gate + n, n, out + row * n);
    }
  });
}

}  // namespace

std::string_view profile_name(Profile profile) {
  switch (profile) {
    case Profile::kFloat32:
      return "float32";
    case Profile::kBFloat16:
      return "bfloat16";
    case Profile::kBFloat16Amx:
      return "bfloat16_amx";
  }
  return "unknown";
}

DType operand_dtype(Profile profile) {
  return profile == Profile::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
}

const RoundedKernels& rounded_kernels(const KernelTable& table, Profile profile) {
  return profile == Profile::kBFloat16Amx ? table.amx : table.bf16;
}

// float32: 2 since top-p takes its part of the row's sum; bfloat16: 2 since attention rounds its
// operands too, 3 since that of top-p.
int32_t arithmetic_revision(Profile profile) {
  switch (profile) {
    case Profile::kFloat32:
      return 2;
    case Profile::kBFloat16:
      return 3;
    case Profile::kBFloat16Amx:
      return 1;
  }
  return 0;
}

std::optional<Profile> parse_profile(std::string_view name) {
  for (const Profile profile : kProfiles) {
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
  if (n % 16 != 0) return gate_whole_rows(context, args, gating, out);
  split_product(context, args, n, 1, [&](const GroupedArgs&, const Block& block) {
    const int64_t at_once = std::max(kTileUnit, kGateFloats / (block.rows * 32));
    for (int64_t tile = block.tile_begin; tile < block.tile_end; tile += at_once) {
      Block part = block;
      part.tile_begin = tile;
      part.tile_end = std::min(block.tile_end, tile + at_once);
      gate_block(context, gating, n, part, out);
    }
  });
}

void gated_linear(const KernelContext& context, const LinearArgs& args, const Gating& gating,
                  float* out) {
  const RowGroup group = whole_group(args);
  grouped_gated_linear(context, one_group(args, group), gating, out);
}

}  // namespace rlgen::kernels
