#include "kernels/ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/scratch.h"

namespace rlgen::kernels {
namespace {

// What a run on the pool must be worth for each thread: waking one costs a few microseconds.
constexpr int64_t kSplitNanoseconds = 3000;
// What a task must be worth beyond one for each thread: each begins with weights that nobody has
// fetched ahead.
constexpr int64_t kTaskNanoseconds = 15000;
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
int64_t linear_nanoseconds(const LinearArgs& args) {
  const int64_t weights = args.w.n * args.w.k;
  return std::max(args.m * weights / 100, weights * size_of(args.w.dtype) / 40);
}

// Column tiles of a task: a multiple of this, which suits every kernel well enough.
constexpr int64_t kTileUnit = 2;

LinearArgs rows_of(const LinearArgs& args, int64_t begin, int64_t end) {
  LinearArgs part = args;
  part.x += begin * args.ldx;
  part.y += begin * args.ldy;
  part.m = end - begin;
  return part;
}

// Runs fn(begin, end) over parts of [0, rows), each of `elements` or more in all.
template <typename F>
void for_row_ranges(const KernelContext& context, int64_t rows, int64_t row_elements,
                    int64_t elements, F fn) {
  const int64_t most = std::max<int64_t>(1, rows * row_elements / elements);
  const int64_t parts = std::min({most, rows, int64_t(context.pool->num_threads())});
  context.pool->run(parts,
                    [&](int64_t part, int) { fn(rows * part / parts, rows * (part + 1) / parts); });
}

// Elements between rows of k such that the same place of some rows lies in different lines of a
// cache: an odd number of lines.
int64_t spread_stride(int64_t k) { return (divide_up(k, 16) | 1) * 16; }

// Rows so far apart want the same few lines of a first-level cache.
bool rows_collide(const LinearArgs& args) {
  constexpr int64_t kWayFloats = 4096 / sizeof(float);
  return args.m > 4 && args.ldx % kWayFloats == 0;
}

// The same product with x as the profile's kernel reads it: in floats of the calling thread, until
// it asks again.
LinearArgs with_operand(const KernelContext& context, const LinearArgs& args) {
  const bool rounds = context.profile != Profile::kFloat32;
  if (args.m <= 0 || (!rounds && !rows_collide(args))) return args;
  thread_local std::vector<float> scratch;
  const int64_t k = args.w.k;
  LinearArgs made = args;
  made.ldx = spread_stride(k);
  float* const operand = grown(scratch, args.m * made.ldx);
  for_row_ranges(context, args.m, k, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = args.x + row * args.ldx;
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

void multiply(const KernelContext& context, const LinearArgs& args, int64_t tile_begin,
              int64_t tile_end) {
  if (context.profile == Profile::kFloat32)
    return context.table->linear(args, tile_begin, tile_end);
  const ScopedFloatMode flush(FloatMode::kFlush);
  context.table->linear_bf16(args, tile_begin, tile_end);
}

// Some rows of a product and some of its column tiles.
struct Block {
  int64_t row;
  int64_t rows;
  int64_t tile_begin;
  int64_t tile_end;
};

OutputBlock output_block(const Block& block, int64_t n) {
  const int64_t column = block.tile_begin * 16;
  return {.row = block.row,
          .rows = block.rows,
          .column = column,
          .columns = std::min(n, block.tile_end * 16) - column};
}

// Runs fn(the args of the block's rows, the block) over all rows and the tiles of the first n
// columns, split at multiples of `unit` columns.
template <typename F>
void split_product(const KernelContext& context, const LinearArgs& given, int64_t n, int64_t unit,
                   F fn) {
  if (given.m <= 0) return;
  const LinearArgs args = with_operand(context, given);
  const int64_t tiles = divide_up(n, 16);
  const int64_t tiles_at_once = std::lcm(kTileUnit, std::lcm(unit, int64_t{16}) / 16);
  const int64_t units = divide_up(tiles, tiles_at_once);
  const int64_t row_blocks = divide_up(args.m, kLinearRowBlock);
  const std::vector<int64_t> cuts = cut_for_threads(
      units, linear_nanoseconds(args) / (units * row_blocks), context.pool->num_threads());
  context.pool->run((int64_t(cuts.size()) - 1) * row_blocks, [&](int64_t task, int) {
    const size_t chunk = size_t(task / row_blocks);
    const int64_t row_block = task % row_blocks;
    const int64_t begin = args.m * row_block / row_blocks;
    const int64_t end = args.m * (row_block + 1) / row_blocks;
    const Block block = {.row = begin,
                         .rows = end - begin,
                         .tile_begin = cuts[chunk] * tiles_at_once,
                         .tile_end = std::min(tiles, cuts[chunk + 1] * tiles_at_once)};
    fn(rows_of(args, begin, end), block);
  });
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
  split_product(context, args, args.w.n, unit, [&](const LinearArgs& rows, const Block& block) {
    multiply(context, rows, block.tile_begin, block.tile_end);
    finish(output_block(block, args.w.n));
  });
}

void linear(const KernelContext& context, const LinearArgs& args) {
  linear(context, args, 1, [](const OutputBlock&) {});
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

void gated_linear(const KernelContext& context, const LinearArgs& args, Activation activation,
                  float* out) {
  const int64_t n = args.w.n / 2;
  const auto activate = [&](const OutputBlock& block) {
    const auto kernel =
        activation == Activation::kSilu ? context.table->silu_mul : context.table->gelu_tanh_mul;
    for (int64_t r = block.row; r < block.row + block.rows; ++r) {
      const float* gate = args.y + r * args.ldy + block.column;
      kernel(gate, gate + n, block.columns, out + r * n + block.column);
    }
  };
  if (n % 16 != 0) {
    linear(context, args);
    return for_row_ranges(context, args.m, n, 1 << 13, [&](int64_t begin, int64_t end) {
      activate({.row = begin, .rows = end - begin, .column = 0, .columns = n});
    });
  }
  split_product(context, args, n, 1, [&](const LinearArgs& rows, const Block& block) {
    multiply(context, rows, block.tile_begin, block.tile_end);
    multiply(context, rows, n / 16 + block.tile_begin, n / 16 + block.tile_end);
    activate(output_block(block, n));
  });
}

}  // namespace rlgen::kernels
