#pragma once

#include <stdint.h>

#include "kernels/packing.h"

// Kernels that stand in the table of every instruction set as they are.
namespace rlgen::kernels::shared {

void gather_row(const PackedMatrix& w, int64_t row, float* out);

void rope_angles(int64_t position, const float* inv_freq, int64_t n, float scale, float* cos,
                 float* sin);

}  // namespace rlgen::kernels::shared
