#include "generation/weights_checker.h"

#include <utility>

namespace rlgen::generation {
namespace {

constexpr std::byte kPattern{0x2d};  // small ordinary numbers of every weight type

Status write_pattern(UpdateCoordinator& updates, const std::string& id,
                     const std::vector<ManifestEntry>& manifest) {
  std::vector<std::byte> bytes;
  for (const ManifestEntry& entry : manifest) {
    bytes.assign(size_t(entry.shape.num_elements() * size_of(entry.dtype)), kPattern);
    RLGEN_RETURN_IF_ERROR(updates.write(id, entry.name, 0, bytes));
  }
  RLGEN_RETURN_IF_ERROR(updates.prepare(id));
  return updates.commit(id);
}

}  // namespace

Status WeightsChecker::snapshot() {
  RLGEN_ASSIGN_OR_RETURN(const auto served, generation_->served_checksums());
  digests_.clear();
  for (const ManifestEntry& entry : served) digests_[entry.name] = entry.digest;
  return absl::OkStatus();
}

Status WeightsChecker::reset() {
  UpdateCoordinator& updates = generation_->updates();
  RLGEN_ASSIGN_OR_RETURN(auto manifest, generation_->served_checksums());
  for (ManifestEntry& entry : manifest) entry.digest.clear();
  UpdateSpec spec{.version = updates.version(), .allow_rollback = true, .manifest = manifest};
  RLGEN_ASSIGN_OR_RETURN(const std::string id, updates.open(std::move(spec)));
  const Status written = write_pattern(updates, id, manifest);
  if (!written.ok()) updates.abort(id).IgnoreError();
  return written;
}

StatusOr<std::vector<std::string>> WeightsChecker::compare() {
  if (digests_.empty()) {
    return absl::FailedPreconditionError("there is no snapshot to compare with; take one first");
  }
  RLGEN_ASSIGN_OR_RETURN(const auto served, generation_->served_checksums());
  std::vector<std::string> differ;
  for (const ManifestEntry& entry : served) {
    const auto kept = digests_.find(entry.name);
    if (kept == digests_.end() || kept->second != entry.digest) differ.push_back(entry.name);
  }
  return differ;
}

}  // namespace rlgen::generation
