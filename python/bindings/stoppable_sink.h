#pragma once

#include <atomic>
#include <string_view>

#include "contract/weight_sink.h"

namespace rlgen::python {

// Passes an update on to another sink until it is told to stop: from then on every call but abort
// is refused with kCancelled, so that whoever writes ends soon. Calls that the other sink has begun
// are not cut off. Thread-safe.
class StoppableSink final : public WeightSink {
 public:
  // `sink` outlives it.
  explicit StoppableSink(WeightSink* sink) : sink_(sink) {}

  void stop() { stopped_ = true; }
  // Once stopped and false: no byte of the sender's is read any more.
  bool reads() const { return writes_ > 0; }

  Status begin(const UpdateSpec& spec) override {
    return stopped_ ? refused() : sink_->begin(spec);
  }
  Status write(std::string_view update_id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override {
    ++writes_;  // before the look, so that whoever stops it sees one of the two
    const Status status = stopped_ ? refused() : sink_->write(update_id, name, offset, bytes);
    --writes_;
    return status;
  }
  Status prepare(std::string_view update_id) override {
    return stopped_ ? refused() : sink_->prepare(update_id);
  }
  Status commit(std::string_view update_id) override {
    return stopped_ ? refused() : sink_->commit(update_id);
  }
  Status abort(std::string_view update_id) override { return sink_->abort(update_id); }

 private:
  static Status refused() { return absl::CancelledError("the update was given up"); }

  WeightSink* const sink_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> writes_{0};
};

}  // namespace rlgen::python
