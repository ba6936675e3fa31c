#include "contract/collective_sender_spec.h"

#include <fmt/format.h>

namespace rlgen {

Status validate(const CollectiveSenderSpec& spec) {
  if (spec.nccl_peer != "nemo" && spec.nccl_peer != "vllm") {
    return absl::InvalidArgumentError(
        fmt::format("nccl_peer is \"{}\"; use nemo or vllm", spec.nccl_peer));
  }
  if (spec.buffer_size_bytes && *spec.buffer_size_bytes < 1) {
    return absl::InvalidArgumentError(
        fmt::format("buffer_size_bytes is {}; it must be at least 1", *spec.buffer_size_bytes));
  }
  if (spec.num_buffers && *spec.num_buffers < 1) {
    return absl::InvalidArgumentError(
        fmt::format("num_buffers is {}; it must be at least 1", *spec.num_buffers));
  }
  return absl::OkStatus();
}

}  // namespace rlgen
