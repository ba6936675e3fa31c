#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "contract/host_tensor.h"
#include "contract/weight_sink.h"

namespace rlgen {

// Tensors [begin, end) of a stream travel as one piece of `bytes` bytes.
struct Pack {
  size_t begin = 0;
  size_t end = 0;
  int64_t bytes = 0;

  bool operator==(const Pack&) const = default;
};

// The packs of tensors with these sizes in bytes, in order: a pack is closed once it holds more
// than `threshold` bytes, so it may overshoot by one tensor; the rest is the last pack. Both ends
// compute this alone, from the same sizes and the same threshold. kInvalidArgument for a negative
// size and a threshold below 1.
StatusOr<std::vector<Pack>> plan_packs(std::span<const int64_t> sizes, int64_t threshold);

// How one end packs.
struct PackGeometry {
  int64_t threshold = 0;
  bool use_legacy_packing = false;

  bool operator==(const PackGeometry&) const = default;
};

// kInvalidArgument, with both sides' numbers, where sender and receiver would plan other packs;
// asked before the first byte, since nothing on the wire would show it.
Status check_same_geometry(const PackGeometry& sender, const PackGeometry& receiver);

// kDataLoss where a pack came with another number of bytes than planned: the sender closes its
// packs elsewhere.
Status check_pack_size(const Pack& planned, size_t pack_index, int64_t received_bytes);

// One tensor out of a pack.
struct UnpackedTensor {
  std::string name;
  HostTensor value;
};

// The tensors of `pack`, copied out of its bytes: back to back without gaps, at whatever offset
// they begin. `entries` are those of the whole stream. check_pack_size's errors, and
// kInvalidArgument where the entries do not add up to the pack.
StatusOr<std::vector<UnpackedTensor>> unpack(std::span<const std::byte> bytes, const Pack& pack,
                                             std::span<const ManifestEntry> entries);

}  // namespace rlgen
