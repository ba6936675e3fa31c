#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace rlgen {

// How the trainer has to speak when it broadcasts weights to a generation.
struct CollectiveSenderSpec {
  std::string nccl_peer = "nemo";            // dialect of rendezvous and warm-up: "nemo" or "vllm"
  std::optional<int64_t> buffer_size_bytes;  // where a pack is closed; not set: the sender's
  std::optional<int32_t> num_buffers;        // that take turns; not set: the sender's
  bool use_legacy_packing = false;           // the older layout of a pack

  bool operator==(const CollectiveSenderSpec&) const = default;
};

// kInvalidArgument for another peer than the two, and for a size or a number below 1.
Status validate(const CollectiveSenderSpec& spec);

}  // namespace rlgen
