#include "refit/checkpoint_transport.h"

#include <vector>

#include "base/file.h"
#include "models/weights.h"
#include "refit/tensor_writer.h"

namespace rlgen::refit {

Status send_checkpoint(const models::SafetensorsFolder& folder, UpdateSpec spec, WeightSink& sink,
                       ThreadPool* pool) {
  std::vector<TensorSource> tensors;
  spec.manifest.clear();
  for (const models::StoredTensor& tensor : folder.tensors()) {
    if (models::is_ignorable_tensor(tensor.name)) continue;
    spec.manifest.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
    tensors.push_back({tensor.name, tensor.shape, tensor.bytes, tensor.file});
  }
  RLGEN_RETURN_IF_ERROR(sink.begin(spec));
  return finish_update(write_tensors(tensors, spec.update_id, sink, pool, drop_pages),
                       spec.update_id, sink);
}

}  // namespace rlgen::refit
