#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "contract/weight_sink.h"
#include "tensor/tensor_view.h"

namespace rlgen::refit {

// A tensor of a trainer in this process, under its Hugging Face name. The memory stays the
// trainer's, who leaves it alone until the call returns.
struct NamedTensor {
  std::string name;
  TensorView view;
};

// Sends all of them through one update: begin, write, prepare, commit. The bytes are packed from
// where they stand, without a copy between. The manifest of `spec` is set from the tensors; its
// other fields hold. kInvalidArgument, before anything begins, for a name that comes twice or a
// tensor that is not contiguous; then as finish_update says.
Status send_tensors(std::span<const NamedTensor> tensors, UpdateSpec spec, WeightSink& sink,
                    ThreadPool* pool);

}  // namespace rlgen::refit
