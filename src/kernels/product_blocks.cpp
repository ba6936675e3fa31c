#include "kernels/product_blocks.h"

#include <algorithm>
#include <numeric>

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

// Multiply-adds of a thread in a nanosecond.
int64_t products_at_once(const KernelContext& context) {
  return context.profile == Profile::kFloat32
             ? kProductsPerNanosecond
             : rounded_kernels(*context.table, context.profile).products_per_nanosecond;
}

// The longer of the arithmetic and the reading at 40 bytes a nanosecond, which one core does.
int64_t group_nanoseconds(const RowGroup& group, int64_t products) {
  const int64_t weights = group.w.n * group.w.k;
  return std::max(group.rows * weights / products, weights * size_of(group.w.dtype) / 40);
}

int64_t row_blocks_of(const RowGroup& group) { return divide_up(group.rows, kLinearRowBlock); }

// The cuts of one of several groups, into parts of about `part` nanoseconds.
std::vector<int64_t> cut_evenly(const RowGroup& group, int64_t units, int64_t products,
                                int64_t part) {
  const int64_t wanted = group_nanoseconds(group, products) / (part * row_blocks_of(group));
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

// Of one product: the longest are claimed first, so that all threads end about together.
bool takes_longer(const Block& a, const Block& b) {
  return a.rows * (a.tile_end - a.tile_begin) > b.rows * (b.tile_end - b.tile_begin);
}

}  // namespace

ColumnUnits::ColumnUnits(int64_t n, int64_t unit)
    : tiles_at_once(std::lcm(kTileUnit, std::lcm(unit, int64_t{16}) / 16)),
      tiles(divide_up(n, 16)),
      units(divide_up(tiles, tiles_at_once)) {}

void plan_blocks(const KernelContext& context, std::span<const RowGroup> groups,
                 const ColumnUnits& columns, std::vector<Block>* blocks) {
  const int64_t threads = context.pool->num_threads();
  const int64_t products = products_at_once(context);
  blocks->clear();
  if (groups.size() == 1) {
    const RowGroup& group = groups[0];
    const int64_t pieces = columns.units * row_blocks_of(group);
    const int64_t piece = group_nanoseconds(group, products) / pieces;
    return add_blocks(group, columns, cut_for_threads(columns.units, piece, threads), blocks);
  }
  int64_t nanoseconds = 0;
  for (const RowGroup& group : groups) nanoseconds += group_nanoseconds(group, products);
  const int64_t part = std::max(kTaskNanoseconds, nanoseconds / (threads * kPartsPerThread));
  for (const RowGroup& group : groups) {
    add_blocks(group, columns,
               cut_evenly(group, columns.units, products, threads == 1 ? nanoseconds + 1 : part),
               blocks);
  }
  if (threads > 1) std::stable_sort(blocks->begin(), blocks->end(), takes_longer);
}

}  // namespace rlgen::kernels
