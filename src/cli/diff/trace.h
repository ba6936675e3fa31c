#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/status.h"
#include "cli/diff/point.h"
#include "models/decoder.h"

namespace rlgen::cli {

using TokenIds = std::vector<int32_t>;

// The values of one place for the positions of one sequence, some of which may be missing.
class PointRows {
 public:
  PointRows() = default;
  PointRows(int64_t positions, int64_t width)
      : width_(width),
        values_(static_cast<size_t>(positions * width)),
        present_(static_cast<size_t>(positions), 0) {}

  int64_t width() const { return width_; }
  int64_t positions() const { return static_cast<int64_t>(present_.size()); }
  bool has(int64_t position) const {
    return position < positions() && present_[static_cast<size_t>(position)] != 0;
  }
  // [width]; of a missing position: zeros.
  std::span<const float> row(int64_t position) const;
  void set(int64_t position, const float* values);

  // The rows from position 0 on, [rows, width], where no position before the last one is missing;
  // kFailedPrecondition names the first that is.
  StatusOr<std::span<const float>> leading() const;

 private:
  int64_t width_ = 0;
  std::vector<float> values_;  // [positions, width]
  std::vector<uint8_t> present_;
};

// One sequence as a model saw it.
struct SequenceTrace {
  TokenIds token_ids;
  std::map<Point, PointRows> points;
};

using Trace = std::vector<SequenceTrace>;

// Bytes that a trace of those sequences takes with all its values.
int64_t trace_bytes(const models::DecoderSpec& spec, std::span<const TokenIds> sequences);

// Writes what it sees down, sequence `i` of the list under id `i`. The engine's thread calls
// on_rows; the rest is for when the engine has none of the sequences in flight.
class TraceRecorder final : public models::ForwardObserver {
 public:
  explicit TraceRecorder(std::span<const TokenIds> sequences);

  void set_recording(bool recording) { recording_ = recording; }
  Trace take() { return std::move(trace_); }

  void on_rows(const models::StepBatch& batch, const models::ForwardRows& rows) override;

 private:
  void record(const models::BatchSequence& sequence, int64_t row, const models::ForwardRows& rows,
              const float* values);

  bool recording_ = true;
  Trace trace_;
};

}  // namespace rlgen::cli
