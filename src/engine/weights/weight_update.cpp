#include "engine/weights/weight_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/weights/read_back.h"

namespace rlgen::engine {
namespace {

using models::NameTable;
using models::WeightEntry;

// True where another tensor fills the same rows by right.
bool is_alias(const NameTable& table, const WeightEntry& entry) {
  if (!entry.optional) return false;
  return std::any_of(table.entries.begin(), table.entries.end(), [&](const WeightEntry& other) {
    return !other.optional && other.slot == entry.slot && other.row < entry.row + entry.rows() &&
           entry.row < other.row + other.rows();
  });
}

bool must_be_finite(const NameTable& table, std::string_view name) {
  return table.slots[size_t(table.find(name)->slot)].must_be_finite;
}

}  // namespace

WeightUpdate::WeightUpdate(UpdateSpec spec, std::shared_ptr<const NameTable> table,
                           std::shared_ptr<Region> region,
                           std::shared_ptr<const models::WeightSet> served)
    : spec_(std::move(spec)),
      weights_(std::make_shared<models::WeightSet>(table, region, spec_.version.value_or(0),
                                                   spec_.serial)),
      served_(std::move(served)) {
  const std::byte* const old = served_ ? served_->region()->data() : nullptr;
  for (const ManifestEntry& listed : spec_.manifest) {
    const WeightEntry* entry = table->find(listed.name);
    if (entry == nullptr) {
      ignored_.insert(listed.name);
      continue;
    }
    tensors_.emplace(std::piecewise_construct, std::forward_as_tuple(listed.name),
                     std::forward_as_tuple(TensorTarget{.table = table.get(),
                                                        .entry = entry,
                                                        .sent = listed.dtype,
                                                        .digest = listed.digest,
                                                        .alias = is_alias(*table, *entry),
                                                        .served = old,
                                                        .staging = &staging_},
                                           region->data()));
  }
}

Status WeightUpdate::write(std::string_view name, size_t offset, std::span<const std::byte> bytes) {
  if (ignored_.contains(name)) return absl::OkStatus();
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return absl::NotFoundError(fmt::format("tensor {}: the manifest of update {} does not list it",
                                           name, spec_.update_id));
  }
  return found->second.write(offset, bytes);
}

Status WeightUpdate::check_complete() const {
  constexpr int kNamed = 8;
  std::string named;
  int missing = 0;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.complete()) continue;
    if (++missing <= kNamed) named += (named.empty() ? "" : "; ") + tensor.gap();
  }
  if (missing == 0) return absl::OkStatus();
  if (missing > kNamed) named += fmt::format("; and {} more", missing - kNamed);
  return absl::FailedPreconditionError(
      fmt::format("update {} is not complete: {}", spec_.update_id, named));
}

void WeightUpdate::count() {
  report_ = {.update_id = spec_.update_id,
             .tensors = int64_t(tensors_.size()),
             .staging_peak = staging_.peak()};
  for (const auto& [name, tensor] : tensors_) {
    report_.bytes += int64_t(tensor.size());
    report_.changed += tensor.changed() ? 1 : 0;
  }
}

Status WeightUpdate::verify() const {
  for (const auto& [name, tensor] : tensors_) RLGEN_RETURN_IF_ERROR(tensor.verify(*weights_));
  for (const auto& [name, tensor] : tensors_) {
    if (!spec_.check_finite && !must_be_finite(weights_->table(), name)) continue;
    RLGEN_RETURN_IF_ERROR(check_finite(*weights_, name));
  }
  return absl::OkStatus();
}

}  // namespace rlgen::engine
