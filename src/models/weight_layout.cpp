#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/weights.h"

namespace rlgen::models {
namespace {

constexpr size_t kListed = 24;  // faults spelled out in one message

using Arrivals = absl::flat_hash_map<const WeightEntry*, const ManifestEntry*>;

void complain(std::vector<std::string>* faults, std::string fault) {
  faults->push_back(std::move(fault));
}

Status as_status(const std::vector<std::string>& faults) {
  if (faults.empty()) return absl::OkStatus();
  const size_t shown = std::min(faults.size(), kListed);
  const std::string rest =
      shown == faults.size() ? "" : fmt::format("; and {} more", faults.size() - shown);
  return absl::InvalidArgumentError(
      fmt::format("the weights do not fit the configuration: {}{}",
                  fmt::join(faults.begin(), faults.begin() + ptrdiff_t(shown), "; "), rest));
}

// The tensor, its shape and, where there is one, the config key behind it.
std::string expected(const WeightEntry& entry, const NameTable& table) {
  const std::string& key = table.slots[size_t(entry.slot)].sized_by;
  return key.empty() ? entry.shape.to_string()
                     : fmt::format("{} ({})", entry.shape.to_string(), key);
}

// What a manifest has of the names that come in two forms.
struct Forms {
  const ManifestEntry* separate = nullptr;  // the first of each
  const ManifestEntry* grouped = nullptr;

  void see(NameForm form, const ManifestEntry& arriving) {
    if (form == NameForm::kOnly) return;
    const ManifestEntry*& first = form == NameForm::kGrouped ? grouped : separate;
    if (first == nullptr) first = &arriving;
  }
  bool mixed() const { return separate != nullptr && grouped != nullptr; }
  // Whether names of a form must be there.
  bool need(NameForm form) const {
    if (form == NameForm::kOnly) return true;
    return !mixed() && (form == NameForm::kGrouped) == (grouped != nullptr);
  }
};

std::string_view why_surplus(std::string_view name) {
  return name.ends_with("_proj_blocks") || name.ends_with("_proj_scales")
             ? "it holds weights in 4 bits, which are not served; save the checkpoint in bfloat16"
             : "the model has no use for it";
}

// Pairs the manifest with the table and finds every fault.
StatusOr<Arrivals> match(const std::vector<ManifestEntry>& manifest, const NameTable& table) {
  Arrivals arrivals;
  Forms forms;
  std::vector<std::string> faults;
  for (const ManifestEntry& arriving : manifest) {
    if (table.ignores(arriving.name)) continue;
    const WeightEntry* entry = table.find(arriving.name);
    if (entry == nullptr) {
      complain(&faults, fmt::format("tensor \"{}\" {} is surplus: {}", arriving.name,
                                    arriving.shape.to_string(), why_surplus(arriving.name)));
      continue;
    }
    forms.see(entry->form, arriving);
    if (!arrivals.emplace(entry, &arriving).second) {
      complain(&faults, fmt::format("tensor \"{}\" is listed twice", arriving.name));
    } else if (!(entry->shape == arriving.shape)) {
      complain(&faults, fmt::format("tensor \"{}\" has shape {}, expected {}", arriving.name,
                                    arriving.shape.to_string(), expected(*entry, table)));
    }
  }
  if (forms.mixed()) {
    complain(&faults, fmt::format("experts come both one by one (\"{}\") and grouped (\"{}\"); all "
                                  "must come in one form",
                                  forms.separate->name, forms.grouped->name));
  }
  for (const WeightEntry& entry : table.entries) {
    if (entry.optional || !forms.need(entry.form) || arrivals.contains(&entry)) continue;
    complain(&faults,
             fmt::format("tensor \"{}\" {} is missing", entry.name, expected(entry, table)));
  }
  RLGEN_RETURN_IF_ERROR(as_status(faults));
  return arrivals;
}

Status check_weight_type(const ManifestEntry& arriving) {
  if (is_weight_type(arriving.dtype)) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("tensor \"{}\" has type {}; weights may be F32, BF16 or F16", arriving.name,
                  safetensors_name(arriving.dtype)));
}

// Gives every matrix slot the table's type for it, or that of its tensors, which must then agree.
Status set_types(const Arrivals& arrivals, NameTable* table) {
  std::vector<const ManifestEntry*> first(table->slots.size(), nullptr);
  for (const WeightEntry& entry : table->entries) {
    const auto at = arrivals.find(&entry);
    if (at == arrivals.end()) continue;
    const ManifestEntry& arriving = *at->second;
    RLGEN_RETURN_IF_ERROR(check_weight_type(arriving));
    WeightSlot& slot = table->slots[size_t(entry.slot)];
    for (const RowPart& part : entry.parts) {
      WeightSlot& other = table->slots[size_t(part.slot)];
      other.dtype = table->held_dtype(other).value_or(arriving.dtype);
    }
    if (slot.kind == SlotKind::kVector) continue;
    if (const auto held = table->held_dtype(slot)) {
      slot.dtype = *held;
      continue;
    }
    const ManifestEntry*& other = first[size_t(entry.slot)];
    if (other != nullptr && other->dtype != arriving.dtype) {
      return absl::UnimplementedError(fmt::format(
          "tensor \"{}\" has type {} but \"{}\" has {}; the two share one matrix and must agree",
          arriving.name, safetensors_name(arriving.dtype), other->name,
          safetensors_name(other->dtype)));
    }
    other = &arriving;
    slot.dtype = arriving.dtype;
  }
  return absl::OkStatus();
}

void place_slots(NameTable* table) {
  size_t offset = 0;
  for (WeightSlot& slot : table->slots) {
    if (slot.kind == SlotKind::kVector) {
      slot.dtype = DType::kFloat32;
      slot.bytes = (size_t(slot.k) * sizeof(float) + 63) / 64 * 64;
    } else {
      slot.bytes = kernels::packed_bytes(slot.dtype, slot.n, slot.k) * size_t(slot.count);
    }
    slot.offset = offset;
    offset += slot.bytes;
  }
  table->total_bytes = offset;
}

}  // namespace

NameForm form_of(const std::vector<ManifestEntry>& manifest, const NameTable& table) {
  for (const ManifestEntry& listed : manifest) {
    const WeightEntry* entry = table.find(listed.name);
    if (entry != nullptr && entry->form != NameForm::kOnly) return entry->form;
  }
  return NameForm::kOnly;
}

Status resolve_layout(const std::vector<ManifestEntry>& manifest, NameTable* table) {
  RLGEN_ASSIGN_OR_RETURN(const Arrivals arrivals, match(manifest, *table));
  RLGEN_RETURN_IF_ERROR(set_types(arrivals, table));
  place_slots(table);
  return absl::OkStatus();
}

}  // namespace rlgen::models
