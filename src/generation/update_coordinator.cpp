#include "generation/update_coordinator.h"

#include <fmt/format.h>

#include <utility>

#include "generation/seeds.h"

namespace rlgen::generation {

UpdateCoordinator::UpdateCoordinator(std::vector<UpdateParticipant> participants,
                                     CoordinatorOptions options)
    : options_(std::move(options)),
      version_(options_.served_version),
      updated_version_(options_.served_version),
      serial_(options_.last_serial),
      last_serial_(options_.last_serial),
      timer_(options_.clock, [this] {
        const std::lock_guard operation(operation_);
        drop_if_late();
      }) {
  for (UpdateParticipant& who : participants) members_.push_back({.who = std::move(who)});
}

WeightVersion UpdateCoordinator::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

WeightSerial UpdateCoordinator::serial() const {
  const std::lock_guard lock(mutex_);
  return serial_;
}

std::optional<std::string> UpdateCoordinator::open_update() const {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kIdle || is_late()) return std::nullopt;
  return spec_.update_id;
}

bool UpdateCoordinator::is_current(size_t participant) const {
  const std::lock_guard lock(mutex_);
  return members_[participant].current;
}

void UpdateCoordinator::set_stale(size_t participant) {
  const std::lock_guard operation(operation_);
  const std::lock_guard lock(mutex_);
  members_[participant].current = false;
}

bool UpdateCoordinator::is_late() const {
  const bool droppable = phase_ == Phase::kReceiving || phase_ == Phase::kPrepared;
  return droppable && deadline_ && options_.clock->now() >= *deadline_;
}

Status UpdateCoordinator::check_open(std::string_view update_id) const {
  if (phase_ != Phase::kIdle && spec_.update_id == update_id) {
    return is_late() ? update_expired(update_id) : absl::OkStatus();
  }
  return ended_.refusal(update_id);
}

Status UpdateCoordinator::check_version(const UpdateSpec& spec) const {
  if (!spec.version) return absl::OkStatus();
  if (*spec.version > version_ || spec.allow_rollback) return absl::OkStatus();
  if (*spec.version == version_) {
    return absl::InvalidArgumentError(fmt::format(
        "update {}: version {} is served already; give the new weights a new number, or "
        "set allow_rollback to replace them",
        spec.update_id, version_));
  }
  return absl::InvalidArgumentError(
      fmt::format("update {}: version {} is older than version {}, which is served; set "
                  "allow_rollback to go back",
                  spec.update_id, *spec.version, version_));
}

// The results of those who take part in the open update, in their order.
std::vector<Status> UpdateCoordinator::on_members(const FanOut::Task& task) {
  std::vector<size_t> who;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].taking_part) who.push_back(i);
  }
  auto results = fan_out_.run(who.size(), [&](size_t i) { return task(who[i]); });
  for (size_t i = 0; i < who.size(); ++i) {
    results[i] = annotate(results[i], members_[who[i]].who.name);
  }
  return results;
}

void UpdateCoordinator::drop(const std::string& update_id, UpdateOutcome outcome) {
  std::vector<bool> gone(members_.size(), true);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].taking_part) gone[i] = members_[i].who.sink->abort(update_id).ok();
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!gone[i]) members_[i].leftovers.push_back(update_id);
    members_[i].taking_part = false;
  }
  ended_.add(update_id, outcome);
  phase_ = Phase::kIdle;
  deadline_.reset();
  timer_.clear();
}

void UpdateCoordinator::drop_if_late() {
  if (is_late()) drop(spec_.update_id, UpdateOutcome::kExpired);
}

StatusOr<std::string> UpdateCoordinator::open(UpdateSpec spec,
                                              const std::function<bool()>& wanted) {
  if (spec.update_id.empty()) {
    const std::lock_guard lock(mutex_);
    spec.update_id = fmt::format("update-{}-{:08x}", ++opened_, uint32_t(draw_seed()));
  }
  const std::lock_guard operation(operation_);
  RLGEN_RETURN_IF_ERROR(begin_alone(spec));
  if (!wanted || wanted()) return spec.update_id;
  drop(spec.update_id, UpdateOutcome::kAborted);
  return absl::CancelledError(
      fmt::format("update {} was given up before it had begun", spec.update_id));
}

// One that is stale already may fail: it stays so, and the update goes on without it.
Status UpdateCoordinator::begin_members(const UpdateSpec& spec) {
  Status first;
  std::vector<size_t> begun;
  std::vector<std::vector<std::string>> leftovers(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    leftovers[i] = member.leftovers;
    if (!first.ok()) continue;
    std::erase_if(leftovers[i], [&](const std::string& update_id) {
      return !absl::IsUnavailable(member.who.sink->abort(update_id));
    });
    const Status status = member.who.sink->begin(spec);
    if (status.ok()) begun.push_back(i);
    // It may have begun all the same.
    if (absl::IsUnavailable(status)) leftovers[i].push_back(spec.update_id);
    if (!status.ok() && member.current) first = annotate(status, member.who.name);
  }
  if (first.ok() && begun.empty()) {
    first =
        absl::UnavailableError(fmt::format("update {}: no shard can be reached", spec.update_id));
  }
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < members_.size(); ++i) members_[i].leftovers = leftovers[i];
    for (const size_t i : begun) members_[i].taking_part = true;
  }
  if (!first.ok() && !begun.empty()) drop(spec.update_id, UpdateOutcome::kAborted);
  return first;
}

// Whoever was not reached stays behind, until an update reaches it.
void UpdateCoordinator::leave_behind() {
  const std::lock_guard lock(mutex_);
  for (Member& member : members_) {
    if (std::exchange(member.taking_part, false)) member.leftovers.push_back(spec_.update_id);
  }
  ended_.add(spec_.update_id, UpdateOutcome::kCommitted);
  phase_ = Phase::kIdle;
}

Status UpdateCoordinator::begin(const UpdateSpec& spec) {
  const std::lock_guard operation(operation_);
  return begin_alone(spec);
}

Status UpdateCoordinator::begin_alone(const UpdateSpec& spec) {
  drop_if_late();
  if (phase_ == Phase::kReceiving || phase_ == Phase::kPrepared) {
    return absl::FailedPreconditionError(fmt::format(
        "update {} cannot begin while update {} is open", spec.update_id, spec_.update_id));
  }
  if (spec.update_id.empty()) return absl::InvalidArgumentError("update_id is empty");
  if (ended_.contains(spec.update_id) || spec.update_id == spec_.update_id) {
    return absl::InvalidArgumentError(
        fmt::format("update {} was used before; ids are unique", spec.update_id));
  }
  RLGEN_RETURN_IF_ERROR(check_version(spec));
  UpdateSpec given = spec;
  given.version = spec.version.value_or(version_ + 1);
  given.deadline.reset();  // it is ours, so that nobody lets go of what is decided
  {
    const std::lock_guard lock(mutex_);
    given.serial = ++last_serial_;
  }
  if (phase_ == Phase::kDecided) leave_behind();
  RLGEN_RETURN_IF_ERROR(begin_members(given));
  given.manifest.clear();
  std::optional<Clock::TimePoint> deadline;
  if (spec.deadline) {
    deadline = options_.clock->now() + *spec.deadline;
    if (const Status watched = timer_.set(*deadline); !watched.ok()) {
      drop(given.update_id, UpdateOutcome::kAborted);
      return watched;
    }
  }
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
  spec_ = std::move(given);
  phase_ = Phase::kReceiving;
  return absl::OkStatus();
}

Status UpdateCoordinator::write(std::string_view update_id, std::string_view name, size_t offset,
                                std::span<const std::byte> bytes) {
  std::vector<const Member*> to;
  Status open;
  {
    const std::lock_guard lock(mutex_);
    open = check_open(update_id);
    if (open.ok() && phase_ != Phase::kReceiving) {
      return absl::FailedPreconditionError(
          fmt::format("update {} is prepared and takes no more bytes", update_id));
    }
    for (const Member& member : members_) {
      if (member.taking_part) to.push_back(&member);
    }
  }
  if (absl::IsDeadlineExceeded(open)) {
    const std::lock_guard operation(operation_);
    drop_if_late();
  }
  RLGEN_RETURN_IF_ERROR(open);
  Status first;
  size_t failed = 0;
  for (const Member* member : to) {
    const Status status = member->who.sink->write(update_id, name, offset, bytes);
    failed += status.ok() ? 0 : 1;
    if (first.ok()) first = to.size() == 1 ? status : annotate(status, member->who.name);
  }
  if (failed == 0) return first;
  {
    const std::lock_guard lock(mutex_);
    if (ended_.contains(update_id)) return ended_.refusal(update_id);  // meanwhile
  }
  if (failed == to.size()) return first;
  const Status dropped = abort(update_id);
  return annotate(first, fmt::format("update {} is dropped, since not every shard took the bytes{}",
                                     update_id, dropped.ok() ? "" : " (it was over already)"));
}

Status UpdateCoordinator::abort(std::string_view update_id) {
  const std::lock_guard operation(operation_);
  drop_if_late();
  if (ended_.is_dropped(update_id)) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(check_open(update_id));
  if (phase_ == Phase::kDecided) {
    return absl::FailedPreconditionError(
        fmt::format("update {} is decided; commit brings it to every shard", update_id));
  }
  drop(spec_.update_id, UpdateOutcome::kAborted);
  return absl::OkStatus();
}

Status UpdateCoordinator::relabel(WeightVersion version, const FanOut::Task& rename) {
  const std::lock_guard operation(operation_);
  if (phase_ == Phase::kDecided) {
    return absl::FailedPreconditionError(
        fmt::format("version {} cannot name the weights while update {} has not reached every "
                    "shard; commit it again",
                    version, spec_.update_id));
  }
  if (version < updated_version_) {
    return absl::InvalidArgumentError(
        fmt::format("version is {}; the last update was version {} and its name cannot go back",
                    version, updated_version_));
  }
  std::vector<size_t> who;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].current) who.push_back(i);
  }
  const auto results = fan_out_.run(who.size(), [&](size_t i) { return rename(who[i]); });
  Status first;
  size_t renamed = 0;
  for (size_t i = 0; i < who.size(); ++i) {
    renamed += results[i].ok() ? 1 : 0;
    if (first.ok()) first = annotate(results[i], members_[who[i]].who.name);
  }
  if (renamed == 0) return first;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < who.size(); ++i) members_[who[i]].current = results[i].ok();
  version_ = version;
  return first;
}

}  // namespace rlgen::generation
