#pragma once

#include <cstdint>
#include <string_view>

namespace rlgen::generation {

// Seeds are below 2^53, so that every JSON reader keeps them exactly.
inline constexpr int64_t kSeedLimit = int64_t{1} << 53;

// The seed of the line `id` of a run: the top 53 bits of XXH3-128 (its low word) over the text
// "rlgen.seed/1", the run's seed as 8 bytes little endian, and the id's bytes.
int64_t line_seed(int64_t run_seed, std::string_view id);

// A seed from the system's source of randomness, in [0, kSeedLimit).
int64_t draw_seed();

}  // namespace rlgen::generation
