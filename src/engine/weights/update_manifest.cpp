#include "engine/weights/update_manifest.h"

#include <optional>
#include <set>
#include <utility>

namespace rlgen::engine {
namespace {

// The tensors of `base`, its experts under names of `form`. Types are those of the served matrices.
std::vector<ManifestEntry> renamed(const std::vector<ManifestEntry>& base, models::NameForm form,
                                   const models::NameTable& table) {
  std::vector<ManifestEntry> result;
  for (const ManifestEntry& entry : base) {
    if (table.find(entry.name)->form == models::NameForm::kOnly) result.push_back(entry);
  }
  for (const models::WeightEntry& entry : table.entries) {
    if (entry.form != form) continue;
    result.push_back(
        {.name = entry.name, .dtype = table.slots[size_t(entry.slot)].dtype, .shape = entry.shape});
  }
  return result;
}

}  // namespace

std::vector<ManifestEntry> as_served(std::vector<ManifestEntry> sent,
                                     const models::NameTable& table) {
  std::vector<ManifestEntry> served;
  for (ManifestEntry& entry : sent) {
    const models::WeightEntry* target = table.find(entry.name);
    if (target == nullptr) continue;
    const models::WeightSlot& slot = table.slots[size_t(target->slot)];
    if (slot.kind == models::SlotKind::kMatrix) entry.dtype = slot.dtype;
    entry.digest.clear();
    served.push_back(std::move(entry));
  }
  return served;
}

std::vector<ManifestEntry> with_rest(std::vector<ManifestEntry> listed,
                                     const std::vector<ManifestEntry>& base,
                                     const models::NameTable& table) {
  std::set<std::string, std::less<>> names;
  for (const ManifestEntry& entry : listed) names.insert(entry.name);
  const models::NameForm form = models::form_of(listed, table);
  const bool other = form != models::NameForm::kOnly && form != models::form_of(base, table);
  for (const ManifestEntry& entry : other ? renamed(base, form, table) : base) {
    if (!names.contains(entry.name)) listed.push_back(entry);
  }
  return listed;
}

void add_other_names(const models::NameTable& table, StoredTypes* stored) {
  std::vector<std::optional<DType>> types(table.slots.size());
  for (const models::WeightEntry& entry : table.entries) {
    const auto found = stored->find(entry.name);
    if (found != stored->end()) types[size_t(entry.slot)] = found->second;
  }
  for (const models::WeightEntry& entry : table.entries) {
    const auto type = types[size_t(entry.slot)];
    if (entry.form != models::NameForm::kOnly && type) stored->emplace(entry.name, *type);
  }
}

}  // namespace rlgen::engine
