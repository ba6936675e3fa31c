#pragma once

#include <absl/functional/function_ref.h>

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/thread_pool.h"
#include "contract/weight_sink.h"

namespace rlgen::refit {

// A whole tensor in memory, in C order.
struct TensorSource {
  std::string_view name;
  Shape shape;
  std::span<const std::byte> bytes;
  std::string_view origin;  // a file, say; for messages; may be empty
  bool whole = false;       // in one range: a digest is then checked as it comes, not by unpacking
};

// Writes all of them into an open update. Large ones go in ranges of whole rows, a multiple of 16
// rows each, written by the threads of `pool` at once; a null pool writes one after the other.
// `done` is told of each range once it is written, by the thread that did. The first error ends it
// and comes back with the tensor's name; what is left is not written.
Status write_tensors(std::span<const TensorSource> tensors, std::string_view update_id,
                     WeightSink& sink, ThreadPool* pool,
                     absl::FunctionRef<void(std::span<const std::byte>)> done);

// Prepares and commits an update that was `written`, or aborts it where that or either of these
// failed; a commit that fails is aborted too, which a sink that has committed refuses. Gives the
// first error.
Status finish_update(Status written, std::string_view update_id, WeightSink& sink);

}  // namespace rlgen::refit
