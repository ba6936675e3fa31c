#include "contract/refit/packed_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace rlgen {

StatusOr<std::vector<Pack>> plan_packs(std::span<const int64_t> sizes, int64_t threshold) {
  if (threshold < 1) {
    return absl::InvalidArgumentError(
        fmt::format("a pack of {} bytes cannot be filled; use at least 1", threshold));
  }
  std::vector<Pack> packs;
  Pack open;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) {
      return absl::InvalidArgumentError(fmt::format("tensor {} has {} bytes", i, sizes[i]));
    }
    open.bytes += sizes[i];
    open.end = i + 1;
    if (open.bytes <= threshold) continue;
    packs.push_back(open);
    open = {.begin = i + 1, .end = i + 1};
  }
  if (open.begin != open.end) packs.push_back(open);
  return packs;
}

Status check_same_geometry(const PackGeometry& sender, const PackGeometry& receiver) {
  if (sender == receiver) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("sender and receiver would pack weights differently: threshold {} and {} bytes, "
                  "use_legacy_packing {} and {}; give both the same",
                  sender.threshold, receiver.threshold, sender.use_legacy_packing,
                  receiver.use_legacy_packing));
}

Status check_pack_size(const Pack& planned, size_t pack_index, int64_t received_bytes) {
  if (received_bytes == planned.bytes) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("pack {} has {} bytes where {} are expected: the sender closes its packs at "
                  "another size or sends other tensors",
                  pack_index, received_bytes, planned.bytes));
}

StatusOr<std::vector<UnpackedTensor>> unpack(std::span<const std::byte> bytes, const Pack& pack,
                                             std::span<const ManifestEntry> entries) {
  if (pack.begin > pack.end || pack.end > entries.size()) {
    return absl::InvalidArgumentError(
        fmt::format("a pack of tensors {} to {} of {}", pack.begin, pack.end, entries.size()));
  }
  std::vector<UnpackedTensor> tensors;
  size_t offset = 0;
  for (const ManifestEntry& entry : entries.subspan(pack.begin, pack.end - pack.begin)) {
    HostTensor value(entry.dtype, entry.shape);
    const auto out = value.bytes();
    if (out.size() > bytes.size() - offset) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} does not fit into a pack of {} bytes", entry.name, bytes.size()));
    }
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    offset += out.size();
    tensors.push_back({entry.name, std::move(value)});
  }
  if (offset == bytes.size()) return tensors;
  return absl::InvalidArgumentError(fmt::format("{} of the {} bytes of a pack belong to no tensor",
                                                bytes.size() - offset, bytes.size()));
}

}  // namespace rlgen
