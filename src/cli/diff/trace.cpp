#include "cli/diff/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace rlgen::cli {

std::span<const float> PointRows::row(int64_t position) const {
  const auto width = static_cast<size_t>(width_);
  return std::span<const float>(values_).subspan(static_cast<size_t>(position) * width, width);
}

void PointRows::set(int64_t position, const float* values) {
  std::copy_n(values, width_, values_.data() + position * width_);
  present_[static_cast<size_t>(position)] = 1;
}

StatusOr<std::span<const float>> PointRows::leading() const {
  const auto gap = std::find(present_.begin(), present_.end(), uint8_t{0});
  if (std::find(gap, present_.end(), uint8_t{1}) != present_.end()) {
    return absl::FailedPreconditionError(
        fmt::format("position {} was not computed", gap - present_.begin()));
  }
  return std::span<const float>(values_).first(
      static_cast<size_t>((gap - present_.begin()) * width_));
}

int64_t trace_bytes(const models::DecoderSpec& spec, std::span<const TokenIds> sequences) {
  const int64_t hidden = spec.hidden;
  const int64_t in_layer = 3 * hidden + models::qkv_size(spec) + models::attended_size(spec);
  const int64_t floats = 2 * hidden + spec.vocab_rows + spec.layers * in_layer;
  int64_t positions = 0;
  for (const TokenIds& ids : sequences) positions += static_cast<int64_t>(ids.size());
  return positions * floats * static_cast<int64_t>(sizeof(float));
}

TraceRecorder::TraceRecorder(std::span<const TokenIds> sequences) {
  for (const TokenIds& ids : sequences) trace_.push_back({.token_ids = ids, .points = {}});
}

void TraceRecorder::record(const models::BatchSequence& sequence, int64_t row,
                           const models::ForwardRows& rows, const float* values) {
  const int64_t position = sequence.first_position + row - sequence.first_row;
  SequenceTrace& trace = trace_.at(static_cast<size_t>(sequence.id));
  const auto positions = static_cast<int64_t>(trace.token_ids.size());
  if (position >= positions) return;
  const auto made = trace.points.try_emplace({rows.point, rows.layer}, positions, rows.width);
  made.first->second.set(position, values);
}

void TraceRecorder::on_rows(const models::StepBatch& batch, const models::ForwardRows& rows) {
  if (!recording_) return;
  auto sequence = batch.sequences.begin();
  const auto count =
      static_cast<int64_t>(rows.wanted_only ? batch.wanted_rows.size() : batch.token_ids.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows.wanted_only ? batch.wanted_rows[static_cast<size_t>(i)] : i;
    while (row >= sequence->first_row + sequence->rows) ++sequence;
    record(*sequence, row, rows, rows.values + i * rows.width);
  }
}

}  // namespace rlgen::cli
