#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ops.h"

namespace rlgen::kernels {

// Runs fn(begin, end) over parts of [0, rows), each of `elements` or more in all.
template <typename F>
void for_row_ranges(const KernelContext& context, int64_t rows, int64_t row_elements,
                    int64_t elements, F fn) {
  const int64_t most = std::max<int64_t>(1, rows * row_elements / elements);
  const int64_t parts = std::min({most, rows, int64_t(context.pool->num_threads())});
  context.pool->run(parts,
                    [&](int64_t part, int) { fn(rows * part / parts, rows * (part + 1) / parts); });
}

}  // namespace rlgen::kernels
