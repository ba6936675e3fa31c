#include "contract/batch/right_padding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "contract/error_type.h"
#include "contract/host_tensor.h"

namespace rlgen {
namespace {

struct PaddedColumns {
  std::string_view ids_name;
  TensorView ids;
  std::string_view lengths_name;
  TensorView lengths;
};

StatusOr<PaddedColumns> find_columns(const TensorColumns& columns) {
  for (const auto& [ids, lengths] :
       {std::pair<std::string_view, std::string_view>("input_ids", "input_lengths"),
        std::pair<std::string_view, std::string_view>("output_ids", "unpadded_sequence_lengths")}) {
    const auto id_column = columns.find(ids);
    const auto length_column = columns.find(lengths);
    if (id_column != columns.end() && length_column != columns.end()) {
      return PaddedColumns{ids, id_column->second, lengths, length_column->second};
    }
  }
  std::vector<std::string_view> found;
  for (const auto& [name, tensor] : columns) found.push_back(name);
  return absl::InvalidArgumentError(
      fmt::format("the batch has neither input_ids and input_lengths nor output_ids and "
                  "unpadded_sequence_lengths; its tensors are {}",
                  fmt::join(found, ", ")));
}

Status check_shapes(const PaddedColumns& columns) {
  if (columns.ids.shape.rank() != 2) {
    return absl::InvalidArgumentError(fmt::format("{} has shape {}; it must be [batch, width]",
                                                  columns.ids_name, columns.ids.shape.to_string()));
  }
  if (columns.lengths.shape.rank() != 1 || columns.lengths.shape[0] != columns.ids.shape[0]) {
    return absl::InvalidArgumentError(
        fmt::format("{} has shape {} for a batch of {} in {}", columns.lengths_name,
                    columns.lengths.shape.to_string(), columns.ids.shape[0], columns.ids_name));
  }
  return absl::OkStatus();
}

// The positions of `row` from `length` on that hold something else than `pad`.
std::vector<int64_t> unpadded(std::span<const int64_t> row, int64_t length, int64_t pad) {
  std::vector<int64_t> positions;
  for (int64_t i = length; i < static_cast<int64_t>(row.size()); ++i) {
    if (row[static_cast<size_t>(i)] != pad) positions.push_back(i);
  }
  return positions;
}

}  // namespace

Status verify_right_padding(const TensorColumns& batch, std::optional<int64_t> pad_value) {
  if (!pad_value) {
    return with_error_type(
        absl::InvalidArgumentError("there is no pad token id; give the tokenizer one, its "
                                   "end-of-sequence token for example"),
        "AssertionError");
  }
  RLGEN_ASSIGN_OR_RETURN(const PaddedColumns columns, find_columns(batch));
  RLGEN_RETURN_IF_ERROR(check_shapes(columns));
  const auto ids = read_integers(columns.ids);
  if (!ids.ok()) return annotate(ids.status(), columns.ids_name);
  const auto lengths = read_integers(columns.lengths);
  if (!lengths.ok()) return annotate(lengths.status(), columns.lengths_name);
  const auto width = static_cast<size_t>(columns.ids.shape[1]);
  for (size_t row = 0; row < lengths->size(); ++row) {
    const int64_t length = (*lengths)[row];
    if (length < 0 || length > static_cast<int64_t>(width)) {
      return absl::InvalidArgumentError(fmt::format("{}[{}] is {}; {} has {} positions",
                                                    columns.lengths_name, row, length,
                                                    columns.ids_name, width));
    }
    const auto wrong = unpadded(std::span(*ids).subspan(row * width, width), length, *pad_value);
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} row {} of length {} is not padded with {} on the right at positions [{}]",
                    columns.ids_name, row, length, *pad_value, fmt::join(wrong, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace rlgen
