#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"

namespace rlgen::cli {

// What loading costs at least, in seconds: each byte of the files is read once and written once to
// memory that nobody has touched.
struct LoadLimit {
  double pass = 0.0;  // one pass over the files, into memory that is used again
  double copy = 0.0;  // one first copy of `bytes`
};

// Measures both with all threads of the pool. Errors: file_error's, kResourceExhausted where there
// is no room for the copy.
StatusOr<LoadLimit> measure_load_limit(const std::vector<std::string>& files, int64_t bytes,
                                       ThreadPool& pool);

}  // namespace rlgen::cli
