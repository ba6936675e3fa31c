#include "models/weights.h"

#include <algorithm>

namespace rlgen::models {

bool is_ignorable_tensor(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

bool NameTable::ignores(std::string_view name) const {
  return is_ignorable_tensor(name) || std::ranges::any_of(passed_over, [&](const auto& prefix) {
           return name.starts_with(prefix);
         });
}

const WeightEntry* NameTable::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(
      entries, name, {}, [](const WeightEntry& entry) { return std::string_view(entry.name); });
  return at == entries.end() || at->name != name ? nullptr : &*at;
}

int32_t NameTable::slot_index(std::string_view slot) const {
  const auto at = std::ranges::find(slots, slot, &WeightSlot::name);
  return at == slots.end() ? -1 : int32_t(at - slots.begin());
}

WeightSet::WeightSet(std::shared_ptr<const NameTable> table, std::shared_ptr<Region> region,
                     WeightVersion version, WeightSerial serial)
    : table_(std::move(table)), region_(std::move(region)), version_(version), serial_(serial) {}

kernels::PackedMatrix WeightSet::matrix(int32_t slot) const {
  const WeightSlot& s = table_->slots[size_t(slot)];
  return {region_->data() + s.offset, s.dtype, s.n, s.k};
}

kernels::PackedStack WeightSet::stack(int32_t slot) const {
  return {matrix(slot), table_->slots[size_t(slot)].count};
}

std::span<const float> WeightSet::vector(int32_t slot) const {
  const WeightSlot& s = table_->slots[size_t(slot)];
  return {reinterpret_cast<const float*>(region_->data() + s.offset), size_t(s.k)};
}

}  // namespace rlgen::models
