#include "refit/memory_transport.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <vector>

#include "refit/tensor_writer.h"

namespace rlgen::refit {

Status send_tensors(std::span<const NamedTensor> tensors, UpdateSpec spec, WeightSink& sink,
                    ThreadPool* pool) {
  std::vector<TensorSource> sources;
  std::set<std::string_view> names;
  spec.manifest.clear();
  for (const NamedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(fmt::format("tensor {} comes twice", tensor.name));
    }
    if (!tensor.view.is_dense()) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} is not contiguous; send .contiguous()", tensor.name));
    }
    spec.manifest.push_back({tensor.name, tensor.view.dtype, tensor.view.shape, {}});
    const auto size = size_t(tensor.view.shape.num_elements() * size_of(tensor.view.dtype));
    sources.push_back({tensor.name, tensor.view.shape, {tensor.view.data, size}, {}});
  }
  RLGEN_RETURN_IF_ERROR(sink.begin(spec));
  const auto nothing = [](std::span<const std::byte>) {};
  return finish_update(write_tensors(sources, spec.update_id, sink, pool, nothing), spec.update_id,
                       sink);
}

}  // namespace rlgen::refit
