#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/ids.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rlgen {

// One tensor that an update will deliver, under its Hugging Face name.
struct ManifestEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::string digest;  // hex XXH3-128 of its bytes; empty: not checked
};

// What running sequences do at the flip to new weights.
enum class KvPolicy { kKeep, kRecompute, kAbort, kWait };

// An update of the weights. Everything the manifest lists must arrive before prepare.
struct UpdateSpec {
  std::string update_id;  // unique; repeated commits of one id are one commit
  // Empty: the one after the version that is served (0 where none is).
  std::optional<WeightVersion> version;
  bool allow_rollback = false;  // the version may be the one that is served, or an older one
  WeightSerial serial = 0;      // given by the coordinator; never reused
  std::vector<ManifestEntry> manifest;
  // Set: the manifest lists some tensors only, and every other one stays as it is in this version,
  // which must be the one that is served. Empty: the manifest lists them all.
  std::optional<WeightVersion> base;
  KvPolicy kv_policy = KvPolicy::kRecompute;
  bool cast = false;  // accept another floating type than the stored one and convert
  // Prepare refuses a tensor with NaN or an infinite value; a router's bias it refuses always.
  bool check_finite = false;
  std::optional<std::chrono::milliseconds> deadline;  // from begin to commit
};

// What an update brought, counted over the tensors of its manifest that the model has.
struct UpdateReport {
  std::string update_id;
  int64_t tensors = 0;
  int64_t bytes = 0;  // as sent
  // Tensors that are served with other bytes than before; all of them where none were served.
  int64_t changed = 0;
  // The most bytes that were held at once, beside the set that is filled, until they could be
  // packed: of tensors that came in pieces, and of second names of rows.
  int64_t staging_peak = 0;
};

// A tensor as it is served: un-packed, in C order, little endian.
struct TensorBytes {
  ManifestEntry entry;  // without a digest
  std::vector<std::byte> bytes;
};

// The receiving end of a weight update. States: idle -> begin -> receiving -> prepare -> prepared
// -> commit -> idle; abort leads from receiving or prepared back to idle and leaves the old weights
// serving. Thread-safe; write may be called by several threads at once.
class WeightSink {
 public:
  virtual ~WeightSink() = default;

  // kFailedPrecondition when an update is open; kInvalidArgument for an id, version or serial that
  // cannot be, and, marked (manifest_error.h), for a manifest that does not match the model (each
  // missing, surplus or mis-shaped tensor named).
  virtual Status begin(const UpdateSpec& spec) = 0;

  // Bytes [offset, offset + bytes.size()) of tensor `name`, little endian, C order, borrowed during
  // the call. Ranges may come in any order; an overlap is kInvalidArgument.
  virtual Status write(std::string_view update_id, std::string_view name, size_t offset,
                       std::span<const std::byte> bytes) = 0;

  // All arrived and verified. kFailedPrecondition names tensors with gaps, kDataLoss a digest that
  // does not match, kInvalidArgument a value that is not finite where that is asked for.
  virtual Status prepare(std::string_view update_id) = 0;

  // Serves the prepared weights from the next step on. Idempotent by id.
  virtual Status commit(std::string_view update_id) = 0;

  // Drops the update. Idempotent by id; kFailedPrecondition once committed.
  virtual Status abort(std::string_view update_id) = 0;

  // Of the update that was committed last; nothing before the first, and from a sink that does not
  // count.
  virtual std::optional<UpdateReport> last_report() const { return std::nullopt; }
};

}  // namespace rlgen
