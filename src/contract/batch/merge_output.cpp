#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "contract/batch/output_batch.h"
#include "contract/error_type.h"

namespace rlgen {
namespace {

using Shards = std::span<const GenerationOutputSpec>;

int64_t rows_of(const GenerationOutputSpec& shard) {
  const HostTensor& ids = shard.output_ids;
  return ids.present() && ids.shape().rank() > 0 ? ids.shape()[0] : 0;
}

// The shards that count: those with rows, or the first where none has any.
std::vector<size_t> counting_shards(Shards shards) {
  std::vector<size_t> counting;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (rows_of(shards[i]) > 0) counting.push_back(i);
  }
  if (counting.empty() && !shards.empty()) counting.push_back(0);
  return counting;
}

Status check_required(Shards shards) {
  std::vector<std::string_view> missing;
  for (const OutputColumn& column : kOutputColumns) {
    const bool somewhere = std::any_of(shards.begin(), shards.end(), [&](const auto& shard) {
      return (shard.*column.tensor).present();
    });
    if (column.required && !somewhere) missing.push_back(column.name);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the generated batch lacks {}", fmt::join(missing, ", ")));
}

// True where the column is to be merged; an error where only some shards have it.
StatusOr<bool> is_wanted(Shards shards, const std::vector<size_t>& counting,
                         const OutputColumn& column) {
  std::vector<size_t> lacking;
  for (const size_t i : counting) {
    if (!(shards[i].*column.tensor).present()) lacking.push_back(i);
  }
  if (lacking.size() == counting.size()) return false;
  if (lacking.empty()) return true;
  return with_error_type(
      absl::InvalidArgumentError(fmt::format("{} is missing in shards {}, others have it",
                                             column.name, fmt::join(lacking, ", "))),
      "KeyError");
}

// [rows, widest, ...] of the shards' tensors.
StatusOr<Shape> merged_shape(Shards shards, const std::vector<size_t>& counting,
                             const OutputColumn& column) {
  const HostTensor& first = shards[counting.front()].*column.tensor;
  std::vector<int64_t> dims(first.shape().dims().begin(), first.shape().dims().end());
  if (dims.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} is a scalar; it must have rows", column.name));
  }
  dims[0] = 0;
  for (const size_t i : counting) {
    const HostTensor& tensor = shards[i].*column.tensor;
    std::vector<int64_t> own(tensor.shape().dims().begin(), tensor.shape().dims().end());
    const bool alike = tensor.dtype() == first.dtype() && own.size() == dims.size() &&
                       (own.size() < 3 || std::equal(own.begin() + 2, own.end(), dims.begin() + 2));
    if (!alike) {
      return absl::InvalidArgumentError(
          fmt::format("{} is {} {} in shard {} and {} {} in shard {}", column.name,
                      torch_name(first.dtype()), first.shape().to_string(), counting.front(),
                      torch_name(tensor.dtype()), tensor.shape().to_string(), i));
    }
    dims[0] += own[0];
    if (own.size() > 1) dims[1] = std::max(dims[1], own[1]);
  }
  return Shape::make(dims);
}

// The values that a row is filled up with, as many as one position of `merged` has.
StatusOr<HostTensor> filling(const Shape& merged, DType dtype, RowFill fill, int64_t pad_token_id) {
  const auto inner = merged.rank() > 2 ? merged.dims().subspan(2) : std::span<const int64_t>();
  RLGEN_ASSIGN_OR_RETURN(const Shape shape, Shape::make(inner));
  HostTensor values(dtype, shape);
  std::vector<int64_t> numbers(static_cast<size_t>(shape.num_elements()));
  if (fill == RowFill::kNone || fill == RowFill::kZero) return values;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto top_k = inner.empty() ? size_t{1} : static_cast<size_t>(inner.back());
    if (fill == RowFill::kPadId) numbers[i] = pad_token_id;
    if (fill == RowFill::kMinusOne) numbers[i] = -1;
    if (fill == RowFill::kDummyRoute) numbers[i] = static_cast<int64_t>(i % top_k);
  }
  RLGEN_RETURN_IF_ERROR(write_integers(numbers, &values));
  return values;
}

// Copies `tensor` behind `out`, filling up each of its rows; gives the place behind.
std::byte* append_rows(const HostTensor& tensor, int64_t width, const HostTensor& fill,
                       std::byte* out) {
  if (tensor.shape().rank() < 2) {
    return std::copy(tensor.bytes().begin(), tensor.bytes().end(), out);
  }
  const int64_t own = tensor.shape()[1];
  const auto step = static_cast<int64_t>(fill.bytes().size());
  const std::byte* in = tensor.bytes().data();
  for (int64_t row = 0; row < tensor.shape()[0]; ++row) {
    out = std::copy(in, in + own * step, out);
    in += own * step;
    for (int64_t i = own; i < width; ++i) {
      out = std::copy(fill.bytes().begin(), fill.bytes().end(), out);
    }
  }
  return out;
}

StatusOr<HostTensor> merge_column(Shards shards, const std::vector<size_t>& counting,
                                  const OutputColumn& column, int64_t pad_token_id) {
  RLGEN_ASSIGN_OR_RETURN(const Shape shape, merged_shape(shards, counting, column));
  const DType dtype = (shards[counting.front()].*column.tensor).dtype();
  HostTensor merged(dtype, shape);
  const auto fill = filling(shape, dtype, column.fill, pad_token_id);
  if (!fill.ok()) return annotate(fill.status(), column.name);
  const int64_t width = shape.rank() > 1 ? shape[1] : 0;
  std::byte* out = merged.bytes().data();
  for (const size_t i : counting) {
    out = append_rows(shards[i].*column.tensor, width, *fill, out);
  }
  return merged;
}

}  // namespace

StatusOr<GenerationOutputSpec> merge_output_batches(Shards shards, int64_t pad_token_id) {
  RLGEN_RETURN_IF_ERROR(check_required(shards));
  const std::vector<size_t> counting = counting_shards(shards);
  GenerationOutputSpec merged;
  for (const OutputColumn& column : kOutputColumns) {
    RLGEN_ASSIGN_OR_RETURN(const bool wanted, is_wanted(shards, counting, column));
    if (!wanted) continue;
    RLGEN_ASSIGN_OR_RETURN(merged.*column.tensor,
                           merge_column(shards, counting, column, pad_token_id));
  }
  for (const size_t i : counting) {
    const auto& reasons = shards[i].finish_reasons;
    merged.finish_reasons.insert(merged.finish_reasons.end(), reasons.begin(), reasons.end());
    if (!merged.logprobs_mode.empty() && merged.logprobs_mode != shards[i].logprobs_mode) {
      return absl::InvalidArgumentError(
          fmt::format("logprobs_mode is {} in shard {} and {} in shard {}", merged.logprobs_mode,
                      counting.front(), shards[i].logprobs_mode, i));
    }
    merged.logprobs_mode = shards[i].logprobs_mode;
  }
  return merged;
}

}  // namespace rlgen
