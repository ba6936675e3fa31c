#pragma once

#include "base/status.h"
#include "base/thread_pool.h"
#include "contract/weight_sink.h"
#include "models/safetensors.h"

namespace rlgen::refit {

// Sends a whole checkpoint through one update: begin, write every tensor, prepare, commit. The
// manifest of `spec` is set from the folder, without tensors that no model reads
// (models::is_ignorable_tensor). Large tensors go in ranges of whole rows, a multiple of 16 rows
// each, written by the threads of `pool` at once; a null pool writes one after the other.
//
// The first error ends it: what is left is not written, the update is aborted, and the error comes
// back with the tensor's name. A commit that fails is aborted too, which a sink that has
// committed refuses. Blocks until done. The folder is only read.
Status send_checkpoint(const models::SafetensorsFolder& folder, UpdateSpec spec, WeightSink& sink,
                       ThreadPool* pool);

}  // namespace rlgen::refit
