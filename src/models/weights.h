#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// One weight as the forward pass uses it (fused projections are one slot, and so are the matrices
// of all experts of a layer).
struct WeightSlot {
  std::string name;  // "layers.3.qkv", "layers.3.qkv_bias", "head", ...
  SlotKind kind = SlotKind::kMatrix;
  DType dtype = DType::kBFloat16;  // of the packed form
  int64_t n = 0;                   // rows of a matrix; 1 for a vector
  int64_t k = 0;                   // columns; elements of a vector
  int64_t count = 1;               // matrices, each packed on its own, one after the other
  // True for a matrix that is multiplied in float32 whatever the profile (a router), and so keeps
  // the type it comes in.
  bool outside_profile = false;
  // True for a bias of a router: experts are chosen by comparison, which means nothing where a
  // value is NaN or infinite, so no set with such a value is served.
  bool must_be_finite = false;
  std::string sized_by;  // for messages: the config key behind its size, "num_experts is 8"; or ""
  size_t offset = 0;     // in the region, a multiple of 64
  size_t bytes = 0;
};

// Which of its names a tensor goes by. A manifest uses one form for all experts of the model.
enum class NameForm : uint8_t {
  kOnly,      // there is no other
  kSeparate,  // a tensor for each expert and projection, as checkpoints have them
  kGrouped,   // one for all experts of a layer, as Transformers holds them from version 5 on
};

// Those rows of a tensor that go to one of several slots.
struct RowPart {
  int32_t slot = 0;
  int64_t rows = 0;         // in each turn
  bool transposed = false;  // as WeightEntry has it
};

// Where a Hugging Face tensor goes: its row r is row `row` + r of a matrix slot, counted over all
// its matrices; of a vector slot its elements are those from `row` on.
struct WeightEntry {
  std::string name;  // Hugging Face name
  Shape shape;
  int32_t slot = 0;
  int64_t row = 0;
  // True for a tensor [k, n] or [count, k, n] that holds the matrices of its slot transposed: its
  // row r is column r % k of matrix r / k. `row` is 0 then.
  bool transposed = false;
  // True where two halves of a row come in turns: its even elements are the first half of what it
  // fills, the odd ones the second. Rows have an even number of elements then.
  bool interleaved = false;
  // Of a tensor whose rows go to several slots in turns: the first part's rows, then the next
  // one's, and from the first again, one turn for each matrix of these slots. `slot` is the first
  // one's then. Empty: all rows go to `slot`.
  std::vector<RowPart> parts;
  // True for a name that may be absent or repeat another one's bytes (lm_head of a tied model).
  bool optional = false;
  NameForm form = NameForm::kOnly;  // rows that have names of both other forms are under each once

  // Rows of the tensor: of a matrix, or of several below each other ([experts, rows, columns]);
  // elements where it has one dimension.
  int64_t rows() const {
    const int rank = shape.rank();
    return rank < 2 ? shape.num_elements() : shape.num_elements() / shape[rank - 1];
  }
  // Elements of each.
  int64_t row_size() const { return shape.rank() < 2 ? 1 : shape[shape.rank() - 1]; }
};

// The table of a model: every name, every slot. One table drives load, write, checker and reading
// back.
struct NameTable {
  std::vector<WeightSlot> slots;         // offsets set once dtypes are known (resolve_layout)
  std::vector<WeightEntry> entries;      // sorted by name, each name once
  size_t total_bytes = 0;                // of the region, set by resolve_layout
  std::vector<std::string> passed_over;  // prefixes of names that are ignorable in this model
  // The type that every weight is rounded to when it arrives, and matrices are held in; unset: each
  // keeps the type it came in.
  std::optional<DType> dtype;
  // The type that matrices are held in, where it is to be another than the one they arrive in or
  // are rounded to.
  std::optional<DType> matrix_dtype;

  // What matrices are held in; unset: the type they come in.
  std::optional<DType> held_dtype() const { return matrix_dtype ? matrix_dtype : dtype; }
  // The same of one matrix slot.
  std::optional<DType> held_dtype(const WeightSlot& slot) const {
    return slot.outside_profile ? dtype : held_dtype();
  }

  // Whether tensors of that name are passed over wherever a manifest is matched: see
  // is_ignorable_tensor and `passed_over`.
  bool ignores(std::string_view name) const;
  const WeightEntry* find(std::string_view name) const;  // null when there is none
  int32_t slot_index(std::string_view slot) const;       // -1 when there is none
};

// True for tensors of old checkpoints that hold nothing of their own (rotary frequencies): never
// part of a table, passed over wherever a manifest is matched.
bool is_ignorable_tensor(std::string_view name);

// Sets dtype, offset and bytes of each slot from the table's types or else those in `manifest`
// (all entries of one matrix slot must then agree). kInvalidArgument names each missing, surplus,
// repeated and mis-shaped tensor with both values, and a tensor of each form where both are there;
// kUnimplemented a type that is no weight type or that differs within a slot.
Status resolve_layout(const std::vector<ManifestEntry>& manifest, NameTable* table);

// The form of the names in `manifest` that have one; kOnly where none has. The first one's.
NameForm form_of(const std::vector<ManifestEntry>& manifest, const NameTable& table);

// Puts rows [row, row + rows) of the tensor `entry` into a region laid out by `table`. `source`
// holds them as `dtype`, dense, at any alignment; a type other than the matrix slot's is converted
// (through float32, rounded to nearest even); elements of a vector are rounded to the table's
// dtype, where it has one. Threads may write different rows at once.
void write_rows(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
                int64_t rows, const std::byte* source, std::byte* region);

// The inverse: rows [row, row + rows) of the tensor `entry` as `dtype`; byte for byte what
// write_rows got when it got that type.
void read_rows(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
               int64_t rows, const std::byte* region, std::byte* destination);

// Whether rows [row, row + rows) of the tensor `entry` are other bytes in one region than in
// another, both laid out by `table`.
bool rows_differ(const NameTable& table, const WeightEntry& entry, int64_t row, int64_t rows,
                 const std::byte* region, const std::byte* other);

// Whether row `row` of the tensor `entry`, or what would follow its last one, begins a group of 16
// packed rows: rows before and from there on may be packed apart from each other. A row of a
// transposed tensor is a column, and columns make no groups.
bool begins_group(const NameTable& table, const WeightEntry& entry, int64_t row);

// An immutable set of weights: one region, addressed through the table. The region has at least
// table->total_bytes bytes.
class WeightSet {
 public:
  WeightSet(std::shared_ptr<const NameTable> table, std::shared_ptr<Region> region,
            WeightVersion version, WeightSerial serial);

  kernels::PackedMatrix matrix(int32_t slot) const;  // of several, the first
  kernels::PackedStack stack(int32_t slot) const;
  std::span<const float> vector(int32_t slot) const;
  // Elements of a vector slot, or null for slot -1 (a bias that the model lacks).
  const float* bias(int32_t slot) const { return slot < 0 ? nullptr : vector(slot).data(); }

  const NameTable& table() const { return *table_; }
  const std::shared_ptr<const NameTable>& shared_table() const { return table_; }
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
