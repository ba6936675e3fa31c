#include "models/families/table_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rlgen::models {

void TableBuilder::matrix(std::string slot, int64_t columns, int64_t count) {
  open_ = {};
  open_.name = std::move(slot);
  open_.k = columns;
  open_.count = count;
}

void TableBuilder::vector(std::string slot) {
  open_ = {};
  open_.name = std::move(slot);
  open_.kind = SlotKind::kVector;
}

TableBuilder& TableBuilder::fill(std::string tensor, int64_t rows, NameForm form) {
  WeightEntry entry{std::move(tensor), Shape{rows}, int32_t(table_.slots.size()), rows_};
  if (open_.kind == SlotKind::kMatrix) entry.shape = Shape{rows, open_.k};
  entry.form = form;
  table_.entries.push_back(std::move(entry));
  rows_ += rows;
  return *this;
}

void TableBuilder::alias(std::string tensor, int64_t rows) {
  WeightEntry entry{std::move(tensor), Shape{rows, open_.k}, int32_t(table_.slots.size())};
  entry.optional = true;
  table_.entries.push_back(std::move(entry));
}

void TableBuilder::grouped(std::string tensor, Shape shape) {
  WeightEntry entry{std::move(tensor), shape, int32_t(table_.slots.size())};
  entry.form = NameForm::kGrouped;
  table_.entries.push_back(std::move(entry));
}

void TableBuilder::fill_whole(std::string tensor, Shape shape, RowOrder order) {
  WeightEntry entry{std::move(tensor), shape, int32_t(table_.slots.size())};
  entry.transposed = order.transposed;
  entry.interleaved = order.interleaved;
  table_.entries.push_back(std::move(entry));
  rows_ = shape.num_elements() / (open_.kind == SlotKind::kMatrix ? open_.k : 1);
}

void TableBuilder::close() {
  const bool matrix = open_.kind == SlotKind::kMatrix;
  open_.n = matrix ? rows_ / open_.count : 1;
  if (!matrix) open_.k = rows_;
  table_.slots.push_back(std::move(open_));
  rows_ = 0;
}

void TableBuilder::split_rows(std::string tensor, int64_t columns, int64_t count,
                              std::initializer_list<RowsOfTurn> turn) {
  WeightEntry entry{.name = std::move(tensor), .shape = {}, .slot = int32_t(table_.slots.size())};
  int64_t rows = 0;
  for (const RowsOfTurn& part : turn) {
    entry.parts.push_back({int32_t(table_.slots.size()), part.rows, part.transposed});
    WeightSlot slot;
    slot.name = part.slot;
    slot.n = part.transposed ? columns : part.rows;
    slot.k = part.transposed ? part.rows : columns;
    slot.count = count;
    table_.slots.push_back(std::move(slot));
    rows += part.rows;
  }
  entry.shape = Shape{count * rows, columns};
  table_.entries.push_back(std::move(entry));
}

NameTable TableBuilder::take() {
  std::ranges::sort(table_.entries, {}, &WeightEntry::name);
  return std::exchange(table_, {});
}

void LayerNames::vector(std::string_view slot, std::initializer_list<LayerPart> parts,
                        std::string_view suffix) {
  table.vector(slots + std::string(slot));
  for (const LayerPart& part : parts) {
    table.fill(fmt::format("{}{}.{}", tensors, part.tensor, suffix), part.rows);
  }
  table.close();
}

void LayerNames::linear(std::string_view slot, int64_t columns,
                        std::initializer_list<LayerPart> parts, bool biased) {
  table.matrix(slots + std::string(slot), columns);
  for (const LayerPart& part : parts) {
    table.fill(fmt::format("{}{}.weight", tensors, part.tensor), part.rows);
  }
  table.close();
  if (biased) vector(fmt::format("{}_bias", slot), parts, "bias");
}

}  // namespace rlgen::models
