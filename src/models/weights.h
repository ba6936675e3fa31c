#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/ids.h"
#include "contract/weight_sink.h"
#include "kernels/packing.h"
#include "tensor/region.h"

namespace rlgen::models {

enum class SlotKind {
  kMatrix,  // packed for the GEMM, in the checkpoint's type
  kVector,  // float32 (norm weights, biases), whatever the checkpoint's type; exact
};

// One weight as the forward pass uses it (fused projections are one slot).
struct WeightSlot {
  std::string name;  // "layers.3.qkv", "layers.3.qkv_bias", "head", ...
  SlotKind kind = SlotKind::kMatrix;
  DType dtype = DType::kBFloat16;  // of the packed form
  int64_t n = 0;                   // rows; 1 for a vector
  int64_t k = 0;                   // columns; elements of a vector
  size_t offset = 0;               // in the region, a multiple of 64
  size_t bytes = 0;
};

// Where a Hugging Face tensor goes: rows [row, row + shape[0]) of a matrix slot, or elements
// [row, row + shape[0]) of a vector slot.
struct WeightEntry {
  std::string name;  // Hugging Face name
  Shape shape;
  int32_t slot = 0;
  int64_t row = 0;
  // True for a name that may be absent or repeat another one's bytes (lm_head of a tied model).
  bool optional = false;
};

// The table of a model: every name, every slot. One table drives load, write, checker and reading
// back.
struct NameTable {
  std::vector<WeightSlot> slots;  // offsets set once dtypes are known (resolve_layout)
  std::vector<WeightEntry> entries;
  size_t total_bytes = 0;

  const WeightEntry* find(std::string_view name) const;
  int32_t slot_index(std::string_view slot) const;  // -1 when there is none
};

// Sets dtype, offset and bytes of each slot from the types in `manifest` (all entries of one matrix
// slot must agree). Errors name each missing, surplus and mis-shaped tensor with both values.
Status resolve_layout(const std::vector<ManifestEntry>& manifest, NameTable* table);

// An immutable set of weights: one region, addressed through the table.
class WeightSet {
 public:
  WeightSet(std::shared_ptr<const NameTable> table, std::shared_ptr<Region> region,
            WeightVersion version, WeightSerial serial);

  kernels::PackedMatrix matrix(int32_t slot) const;
  std::span<const float> vector(int32_t slot) const;

  const NameTable& table() const { return *table_; }
  const std::shared_ptr<Region>& region() const { return region_; }
  WeightVersion version() const { return version_; }
  WeightSerial serial() const { return serial_; }

 private:
  std::shared_ptr<const NameTable> table_;
  std::shared_ptr<Region> region_;
  WeightVersion version_;
  WeightSerial serial_;
};

}  // namespace rlgen::models
