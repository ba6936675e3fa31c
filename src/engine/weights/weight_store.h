#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/deadline_timer.h"
#include "contract/ended_updates.h"
#include "contract/shard.h"
#include "contract/weight_sink.h"
#include "engine/weights/region_pool.h"
#include "engine/weights/spill_file.h"
#include "engine/weights/update_manifest.h"
#include "engine/weights/weight_update.h"

namespace rlgen::engine {

// Brings users of the weights to a new set; commit returns after it. Called without locks held, one
// call at a time. An error leaves the update prepared.
using FlipFn = std::function<Status(std::shared_ptr<const models::WeightSet>, KvPolicy)>;

struct WeightStoreOptions {
  Clock* clock = nullptr;  // outlives the store
  RegionKind region_kind = RegionKind::kAnonymous;
  FlipFn flip;                        // empty: nobody is told
  std::string spill_folder = "/tmp";  // where weights go that stand down
};

// The weights of a process: the set that is served, and the one that an open update fills. Loading
// a checkpoint is the first update; it fixes the layout and each tensor's stored type. Beyond
// WeightSink's errors:
//   begin    kInvalidArgument for an empty or known update id, a negative version, serial 0 or one
//            that an earlier update had, a name listed twice, a digest that is no XXH3-128, a type
//            other than the stored one without `cast`, a subset that names no tensor of the model;
//            the last four are marked as errors of the manifest. kFailedPrecondition for a base
//            that is not served. It copies the base.
//   any      kDeadlineExceeded once the deadline passed. The update is dropped at the deadline,
//            whether somebody calls or not, and what it held is free; a commit that has begun is
//            not cut off, a prepare is dropped at its end. begin gives kResourceExhausted where the
//            system has no thread for that.
//   prepare  kDataLoss and kInvalidArgument drop the update
// Whether a version may follow the one that is served is not its affair: it takes any.
// The memory of the set served before is kept for the next update once nobody reads it.
class WeightStore final : public WeightSink {
 public:
  WeightStore(std::shared_ptr<const models::NameTable> table, WeightStoreOptions options);

  Status begin(const UpdateSpec& spec) override;
  Status write(std::string_view update_id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override;
  Status prepare(std::string_view update_id) override;
  Status commit(std::string_view update_id) override;
  Status abort(std::string_view update_id) override;
  std::optional<UpdateReport> last_report() const override;

  // Names the set that is served anew; the users of the weights are told as at a flip, with a set
  // of the same serial. Waits for a prepare or commit that is under way. Errors: a negative version
  // (kInvalidArgument), nothing served (kFailedPrecondition), the flip's.
  Status relabel(WeightVersion version);

  // Takes the served set out of memory, and the spare one. With `keep` its bytes go to a file and
  // wake() brings them back; without, only an update brings weights back. Memory is freed when the
  // last user of the set lets go. Where nothing is served, or again: OK, but a set that is kept in
  // a file is given up without `keep`. kFailedPrecondition while an update is open; SpillFile's
  // errors, with the set still served.
  Status stand_down(bool keep);
  // Serves again what stood down with `keep`, unless an update came first. OK where there is
  // nothing to bring back. Errors: Region::create's, SpillFile's; it may then be called again.
  Status wake();

  // The update that is open, if any.
  std::optional<OpenUpdate> open_update() const;
  // Bytes that it holds of now beside the set that it fills (UpdateReport::staging_peak).
  int64_t staging_bytes() const;

  // The set that is served; null before the first commit and while the weights stand down.
  std::shared_ptr<const models::WeightSet> current() const;
  // The tensors of that set with the types that reading them back gives (vectors: as they were
  // sent), without digests.
  std::vector<ManifestEntry> manifest() const;

  // What serves, or will again after wake(); serial 0: nothing.
  struct Label {
    WeightVersion version = 0;
    WeightSerial serial = 0;
  };
  Label label() const;

  // Both, of one moment. kFailedPrecondition where nothing is served.
  struct Served {
    std::shared_ptr<const models::WeightSet> weights;
    std::vector<ManifestEntry> manifest;
  };
  StatusOr<Served> served() const;

 private:
  enum class State { kReceiving, kPreparing, kPrepared, kCommitting };

  struct Layout {
    std::shared_ptr<const models::NameTable> table;
    StoredTypes stored;
    std::shared_ptr<RegionPool> pool;
  };

  Status check_spec(const UpdateSpec& spec) const;
  Status check_base(const UpdateSpec& spec) const;
  Status check_manifest(const UpdateSpec& spec) const;
  Status check_types(const UpdateSpec& spec) const;
  StatusOr<Layout> layout_for(const UpdateSpec& spec) const;
  bool at_rest() const;
  bool is_late() const;
  void expire();
  void watch_deadline();
  void close(UpdateOutcome outcome);
  Status check_open(std::string_view update_id) const;

  const std::shared_ptr<const models::NameTable> names_;
  const WeightStoreOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // waits until at_rest
  // All below are guarded by mutex_.
  bool relabelling_ = false;
  std::optional<SpillFile> spilled_;  // of a set that stands down
  Label label_;                       // of current_, or of spilled_
  std::shared_ptr<WeightUpdate> open_;
  State state_ = State::kReceiving;
  std::optional<Clock::TimePoint> deadline_;
  Layout opening_;
  std::optional<Layout> serving_;
  std::shared_ptr<const models::WeightSet> current_;
  std::vector<ManifestEntry> manifest_;
  std::optional<UpdateReport> report_;
  EndedUpdates ended_;
  std::set<WeightSerial> serials_;

  DeadlineTimer timer_;  // dies first
};

}  // namespace rlgen::engine
