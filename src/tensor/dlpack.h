#pragma once

#include <dlpack/dlpack.h>

#include <memory>

#include "base/status.h"
#include "tensor/tensor_view.h"

namespace rlgen {

// A view of the memory that `tensor` describes; who gave it keeps it alive, and says whether it
// may be written. Errors: kUnimplemented for memory that is not the CPU's and for element types
// that DType lacks, kInvalidArgument for a bad shape or missing data.
StatusOr<MutableTensorView> view_of_dlpack(const DLTensor& tensor);

struct FreeDlpack {
  void operator()(DLManagedTensor* tensor) const { tensor->deleter(tensor); }
};
using DlpackHandle = std::unique_ptr<DLManagedTensor, FreeDlpack>;

// `view` for another library, without a copy. `owner` is held until the receiver calls the
// deleter, on whichever thread. DLPack cannot say that data is read-only: the receiver has to know.
// Errors: kUnimplemented for bool and the 8-bit floats, which this version of DLPack lacks.
StatusOr<DlpackHandle> to_dlpack(const TensorView& view, std::shared_ptr<const void> owner);

}  // namespace rlgen
