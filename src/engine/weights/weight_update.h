#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "contract/weight_sink.h"
#include "engine/weights/incoming_tensor.h"

namespace rlgen::engine {

// One open update: the set it fills and what has arrived. The map is immutable after create;
// IncomingTensor does its own locking.
class WeightUpdate {
 public:
  // `table` has its layout and fits the manifest (resolve_layout); `region` holds
  // table->total_bytes. Listed names without an entry are taken and dropped.
  // `served` is the set that serves meanwhile, of the same table; null where there is none.
  WeightUpdate(UpdateSpec spec, std::shared_ptr<const models::NameTable> table,
               std::shared_ptr<Region> region, std::shared_ptr<const models::WeightSet> served);

  // IncomingTensor's errors; kNotFound for a name that the manifest does not list.
  Status write(std::string_view name, size_t offset, std::span<const std::byte> bytes);

  // kFailedPrecondition names the tensors with gaps (at most eight, then a count).
  Status check_complete() const;
  // Digests and second names (kDataLoss), and that values are finite (kInvalidArgument): in slots
  // that must be, and where asked for in all. After check_complete.
  Status verify() const;

  // Counts what the report says; after verify, once, before the served set changes.
  void count();
  const UpdateReport& report() const { return report_; }
  // Bytes held beside the set, of now.
  int64_t staging_bytes() const { return staging_.now(); }

  const UpdateSpec& spec() const { return spec_; }
  const std::shared_ptr<const models::WeightSet>& weights() const { return weights_; }

 private:
  UpdateSpec spec_;
  std::shared_ptr<const models::WeightSet> weights_;
  std::shared_ptr<const models::WeightSet> served_;
  StagingMeter staging_;
  std::map<std::string, IncomingTensor, std::less<>> tensors_;
  std::set<std::string, std::less<>> ignored_;
  UpdateReport report_;
};

}  // namespace rlgen::engine
