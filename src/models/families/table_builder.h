#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "models/weights.h"

namespace rlgen::models {

// As the fields of WeightEntry.
struct RowOrder {
  bool transposed = false;
  bool interleaved = false;
};

// Collects slots and the tensors that fill them, from row 0 upward: opens a slot, fills it, closes
// it.
class TableBuilder {
 public:
  // `count` matrices of as many rows each.
  void matrix(std::string slot, int64_t columns, int64_t count = 1);
  void vector(std::string slot);

  // Of the slot that is open: the config key behind its size, for messages.
  void sized_by(std::string key) { open_.sized_by = std::move(key); }
  // Of the matrix that is open: multiplied in float32 whatever the profile.
  void outside_profile() { open_.outside_profile = true; }
  // Of the slot that is open: a value that is NaN or infinite is refused.
  void must_be_finite() { open_.must_be_finite = true; }

  // The next rows (elements) of the slot that is open.
  TableBuilder& fill(std::string tensor, int64_t rows, NameForm form = NameForm::kOnly);
  // Another name of the first rows of the open slot, which may be absent.
  void alias(std::string tensor, int64_t rows);
  // The name of all rows of the open slot in the grouped form.
  void grouped(std::string tensor, Shape shape);
  // One tensor of that shape for all rows (elements) of the open slot.
  void fill_whole(std::string tensor, Shape shape, RowOrder order = {});
  void close();

  // One tensor [count * (all their rows), columns] whose rows go to several slots in turns, those
  // of one turn to one matrix of each slot, of which there are `count`. No slot is open.
  struct RowsOfTurn {
    std::string slot;
    int64_t rows = 0;
    bool transposed = false;  // rows are columns of the slot's matrices
  };
  void split_rows(std::string tensor, int64_t columns, int64_t count,
                  std::initializer_list<RowsOfTurn> turn);

  // Every entry, in order of names. The builder is empty afterwards.
  NameTable take();

 private:
  NameTable table_;
  WeightSlot open_;
  int64_t rows_ = 0;
};

// Tensors of one layer, by their names below its prefix.
struct LayerPart {
  std::string_view tensor;
  int64_t rows;
};

struct LayerNames {
  TableBuilder& table;
  std::string tensors;  // "model.layers.3."
  std::string slots;    // "layers.3."

  void vector(std::string_view slot, std::initializer_list<LayerPart> parts,
              std::string_view suffix);
  // Matrices below each other and, where `biased`, their biases in the slot of that name + "_bias".
  void linear(std::string_view slot, int64_t columns, std::initializer_list<LayerPart> parts,
              bool biased);
};

}  // namespace rlgen::models
