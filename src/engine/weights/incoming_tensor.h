#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/weights/byte_ranges.h"
#include "models/weights.h"

namespace rlgen::engine {

// Bytes that the tensors of an update hold beside the set that they fill, until they are packed.
class StagingMeter {
 public:
  void add(int64_t bytes) {
    const int64_t now = now_.fetch_add(bytes) + bytes;
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  int64_t now() const { return now_; }
  int64_t peak() const { return peak_; }

 private:
  std::atomic<int64_t> now_{0};
  std::atomic<int64_t> peak_{0};
};

// Where a tensor's bytes go and how they look on the way.
struct TensorTarget {
  const models::NameTable* table = nullptr;  // with its layout; outlives the object
  const models::WeightEntry* entry = nullptr;
  DType sent = DType::kFloat32;
  std::string digest;  // hex, of the bytes as sent; empty: none
  // Another name for rows that a second tensor fills: collected, compared at the end, never stored.
  bool alias = false;
  // The region of the set that is served, laid out alike, outlives the object; null: there is none.
  const std::byte* served = nullptr;
  StagingMeter* staging = nullptr;  // outlives the object

  const models::WeightSlot& slot() const { return table->slots[size_t(entry->slot)]; }
  bool is_matrix() const { return slot().kind == models::SlotKind::kMatrix; }
  // Held in another type than it is sent in, so that the bytes cannot be read back.
  bool cast() const { return sent != (is_matrix() ? slot().dtype : table->dtype.value_or(sent)); }
};

// One tensor of an open update. Whole tensors and row-aligned ranges of whole 16-row groups (of a
// transposed tensor: of whole rows) are packed at once; other ranges are collected and packed when
// the last byte is there. write() may be called by several threads at once, the rest after all
// writers are done.
class IncomingTensor {
 public:
  // `region` is the memory of the set being filled and outlives the object.
  IncomingTensor(TensorTarget target, std::byte* region);

  // kInvalidArgument for a range that leaves the tensor or overlaps an earlier one, kDataLoss when
  // the tensor came whole and its digest does not match (nothing is taken then).
  Status write(size_t offset, std::span<const std::byte> bytes);

  bool complete() const;
  // "<name>: byte 128 of 4096 is missing".
  std::string gap() const;
  // Compares the digest, and the rows of an alias, with `filled`, the set that the region belongs
  // to. kDataLoss names the tensor and both values.
  Status verify(const models::WeightSet& filled) const;
  // Whether its bytes as served are others than those that are served now. Once it is complete.
  bool changed() const;
  size_t size() const { return size_; }

 private:
  bool begins_group(size_t offset) const;
  bool packs_at_once(size_t offset, size_t size) const;
  Status check_range(size_t offset, size_t size) const;
  void place(size_t offset, std::span<const std::byte> bytes);
  void place_staged();
  Status check_digest(const std::string& found) const;
  Status verify_alias(const models::WeightSet& filled) const;

  const TensorTarget target_;
  std::byte* const region_;
  const size_t size_;       // bytes as sent
  const size_t row_bytes_;  // as sent; of one dimension, an element

  mutable std::mutex mutex_;
  ByteRanges claimed_;           // guarded by mutex_
  ByteRanges staged_;            // guarded by mutex_
  size_t arrived_ = 0;           // guarded by mutex_: bytes placed or staged
  bool complete_ = false;        // guarded by mutex_
  bool digest_checked_ = false;  // guarded by mutex_
  std::string staged_digest_;    // set before complete_ when the bytes are cast
  std::atomic<bool> changed_;
  std::vector<std::byte> staging_;  // sized under mutex_; disjoint ranges written outside it
};

}  // namespace rlgen::engine
