#pragma once

#include <array>
#include <cstdint>

namespace rlgen::kernels {

// Philox4x32-10: four random words from a counter and a key, without state. Source: Salmon,
// Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A uniform double in [0, 1) that is a multiple of 2^-53. Key: the low and the high word of the
// seed; counter: low and high word of the position, the sample index, 0; of the result, word 0 is
// the low and word 1 the high half, whose upper 53 bits count.
double uniform(uint64_t seed, uint32_t sample_index, uint64_t position);

}  // namespace rlgen::kernels
