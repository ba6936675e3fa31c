#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"

// How a product is cut for the threads of a pool: along rows and columns, never k.
namespace rlgen::kernels {

// Rows of a product that share a group, and some column tiles of 16.
struct Block {
  const RowGroup* group;
  int64_t row;
  int64_t rows;
  int64_t tile_begin;
  int64_t tile_end;
  // Its rows as the kernel reads them, set by who claims it.
  const float* x = nullptr;
  int64_t ldx = 0;
};

// Column tiles of a block: a multiple of this, which suits every kernel well enough.
inline constexpr int64_t kTileUnit = 2;

// Where the columns of all groups of a product may be cut: `units` of tiles_at_once tiles each, a
// multiple of kTileUnit; the last may have fewer.
struct ColumnUnits {
  int64_t tiles_at_once;
  int64_t tiles;
  int64_t units;

  // The first n columns, cut at multiples of `unit` columns.
  ColumnUnits(int64_t n, int64_t unit);
};

// All blocks of a product in the order in which they are to be claimed, which together are all rows
// of its groups and all tiles of `columns`; each has at most 256 rows. `groups` must outlive them.
void plan_blocks(const KernelContext& context, std::span<const RowGroup> groups,
                 const ColumnUnits& columns, std::vector<Block>* blocks);

}  // namespace rlgen::kernels
