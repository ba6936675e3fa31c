#pragma once

#include <stdint.h>

#include "kernels/tile_registers.h"

// peak_fma in tile registers.
namespace rlgen::kernels::RLGEN_ISA {

constexpr int64_t kPeakTileFlops = int64_t{4} * 2 * kTileRows * 16 * 2 * kTilePairs;

[[maybe_unused]] static void peak_tiles(int64_t rounds, float* out) {
  alignas(64) uint16_t halves[kTileRows * 2 * kTilePairs];
  for (uint16_t& half : halves) half = 0x3f00;
  shape_two_row_tiles(kTileRows, kTileRows);
  load_tile<4>(halves, 64);
  load_tile<5>(halves, 64);
  load_tile<6>(halves, 64);
  load_tile<7>(halves, 64);
  for (int64_t round = 0; round < rounds; ++round) {
    add_products<0, 4, 6>();
    add_products<1, 4, 7>();
    add_products<2, 5, 6>();
    add_products<3, 5, 7>();
  }
  alignas(64) float sums[kTileRows * 16];
  store_tile<3>(sums, 64);
  release_tiles();
  store(load(sums), out);
}

}  // namespace rlgen::kernels::RLGEN_ISA
