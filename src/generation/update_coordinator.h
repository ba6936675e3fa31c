#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/deadline_timer.h"
#include "base/log.h"
#include "contract/ended_updates.h"
#include "contract/weight_sink.h"
#include "generation/fan_out.h"

namespace rlgen::generation {

// One that takes part in updates: a shard, or one of those that share a store.
struct UpdateParticipant {
  std::string name;            // "shard 0", for messages
  WeightSink* sink = nullptr;  // outlives the coordinator
};

// That an update is to be served: everywhere, whatever comes.
struct UpdateDecision {
  std::string update_id;
  WeightVersion version = 0;
  WeightSerial serial = 0;
};

struct CoordinatorOptions {
  Clock* clock = nullptr;  // outlives the coordinator
  // Writes a decision down, before the first commit is sent. An error leaves the update prepared
  // and undecided. Empty: decisions live as long as the coordinator.
  std::function<Status(const UpdateDecision&)> note;
  WeightVersion served_version = 0;  // what all participants serve
  WeightSerial last_serial = 0;      // no update had a higher one
  LogSink log;                       // gets each report; as a warning where no tensor changed
};

// One update over several participants, all or none. It gives out the serials, sends each byte to
// everyone, decides once all have prepared and then brings everyone to the decision. Thread-safe;
// write may be called by several threads at once, the other calls run one after the other.
//
//   idle -> begin -> receiving -> prepare -> prepared -> commit -> decided -> idle
//   receiving, prepared -> abort, deadline, a participant that failed alone -> idle, old version
//
// Beyond WeightSink's errors:
//   begin    kInvalidArgument for the version that is served, or an older one, without
//            allow_rollback. `serial` of the spec is not looked at.
//   write    an error that one participant gives and another does not drops the update
//   prepare  an error drops the update, unless everyone says the same: that tensors are missing
//   commit   after the decision: the first error, naming the participant. The update is decided
//            then, abort is refused, and commit may be called again to reach those that failed
//   any      kDeadlineExceeded once the deadline passed before the decision. The update is dropped
//            then, whether somebody calls or not; a prepare that runs is waited for
class UpdateCoordinator final : public WeightSink {
 public:
  UpdateCoordinator(std::vector<UpdateParticipant> participants, CoordinatorOptions options);

  // Begins an update, with an id of its own where the spec has none. Returns the id. `wanted` is
  // asked once it has begun, before another one can begin: where it says no the update is dropped
  // again (kCancelled).
  StatusOr<std::string> open(UpdateSpec spec, const std::function<bool()>& wanted = {});

  Status begin(const UpdateSpec& spec) override;
  Status write(std::string_view update_id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override;
  Status prepare(std::string_view update_id) override;
  Status commit(std::string_view update_id) override;
  Status abort(std::string_view update_id) override;
  // As one participant that took part counts it; the largest staging_peak of all.
  std::optional<UpdateReport> last_report() const override;

  // Names the served version anew: `rename` is called for each participant that is current. Where
  // it fails for some, these are stale; where it fails for all, nothing has changed.
  // kInvalidArgument for a version below that of the last update, kFailedPrecondition while a
  // decided update has not reached everyone.
  Status relabel(WeightVersion version, const FanOut::Task& rename);

  WeightVersion version() const;
  WeightSerial serial() const;
  std::optional<std::string> open_update() const;
  // Serves what was decided last. One that is not must get no new requests; the next update that
  // reaches it makes it current.
  bool is_current(size_t participant) const;
  // Says that a participant lost its weights or cannot be reached.
  void set_stale(size_t participant);

 private:
  enum class Phase { kIdle, kReceiving, kPrepared, kDecided };
  struct Member {
    UpdateParticipant who;
    bool current = true;
    bool taking_part = false;            // in the open update
    std::vector<std::string> leftovers;  // updates whose abort did not get through
  };

  // With operation_ held.
  Status begin_alone(const UpdateSpec& spec);
  Status begin_members(const UpdateSpec& spec);
  void drop_if_late();
  void drop(const std::string& update_id, UpdateOutcome outcome);
  void leave_behind();
  Status send_commits(const UpdateSpec& spec);
  void take_reports(const std::vector<size_t>& who, const std::vector<Status>& results);
  void log_report(const UpdateReport& report) const;
  std::vector<Status> on_members(const FanOut::Task& task);

  Status check_version(const UpdateSpec& spec) const;
  // Not OK, with the reason, unless that update is open.
  Status check_open(std::string_view update_id) const;
  bool is_late() const;

  const CoordinatorOptions options_;
  FanOut fan_out_;
  std::mutex operation_;  // one begin, prepare, commit, abort or relabel at a time

  mutable std::mutex mutex_;
  // All below are written with both mutexes held, so either suffices to read.
  std::vector<Member> members_;
  Phase phase_ = Phase::kIdle;
  UpdateSpec spec_;  // of the open update, without its tensors
  std::optional<Clock::TimePoint> deadline_;
  EndedUpdates ended_;
  std::optional<UpdateReport> report_;
  WeightVersion version_;
  WeightVersion updated_version_;  // of the last update, whatever it is called now
  WeightSerial serial_;
  WeightSerial last_serial_;  // given out
  int64_t opened_ = 0;

  DeadlineTimer timer_;  // dies first
};

}  // namespace rlgen::generation
