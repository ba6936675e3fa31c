#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "generation/update_coordinator.h"

// The part of UpdateCoordinator that decides and brings everyone to the decision.
namespace rlgen::generation {
namespace {

bool all_of_code(const std::vector<Status>& results, absl::StatusCode code) {
  return std::all_of(results.begin(), results.end(),
                     [&](const Status& status) { return status.code() == code; });
}

}  // namespace

Status UpdateCoordinator::prepare(std::string_view update_id) {
  const std::lock_guard operation(operation_);
  const Status open = check_open(update_id);
  drop_if_late();
  RLGEN_RETURN_IF_ERROR(open);
  if (phase_ != Phase::kReceiving) return absl::OkStatus();
  const auto results =
      on_members([&](size_t i) { return members_[i].who.sink->prepare(update_id); });
  if (all_of_code(results, absl::StatusCode::kFailedPrecondition)) return results[0];
  for (const Status& status : results) {
    if (status.ok()) continue;
    drop(spec_.update_id, UpdateOutcome::kAborted);
    return annotate(status, fmt::format("update {} is dropped", update_id));
  }
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kPrepared;
  return absl::OkStatus();
}

std::optional<UpdateReport> UpdateCoordinator::last_report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void UpdateCoordinator::log_report(const UpdateReport& report) const {
  const std::string text = fmt::format(
      "update {}: {} tensors, {} bytes, {} tensors changed, at most {} bytes staged",
      report.update_id, report.tensors, report.bytes, report.changed, report.staging_peak);
  if (report.changed > 0) return write_log(options_.log, LogLevel::kInfo, text);
  write_log(options_.log, LogLevel::kWarning,
            text +
                "; what was sent is what was served already: does the trainer send the tensors "
                "that it trains?");
}

// Of those who committed just now.
void UpdateCoordinator::take_reports(const std::vector<size_t>& who,
                                     const std::vector<Status>& results) {
  std::optional<UpdateReport> merged;
  for (size_t i = 0; i < who.size(); ++i) {
    const auto one = results[i].ok() ? members_[who[i]].who.sink->last_report() : std::nullopt;
    if (!one || one->update_id != spec_.update_id) continue;
    const int64_t peak = merged ? merged->staging_peak : 0;
    if (!merged) merged = one;
    merged->staging_peak = std::max(peak, one->staging_peak);
  }
  if (!merged) return;
  const bool again = report_ && report_->update_id == merged->update_id;
  if (!again) log_report(*merged);
  const std::lock_guard lock(mutex_);
  report_ = std::move(merged);
}

Status UpdateCoordinator::send_commits(const UpdateSpec& spec) {
  std::vector<size_t> who;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].taking_part) who.push_back(i);
  }
  const auto results =
      on_members([&](size_t i) { return members_[i].who.sink->commit(spec.update_id); });
  take_reports(who, results);
  const std::lock_guard lock(mutex_);
  if (serial_ != spec.serial && all_of_code(results, absl::StatusCode::kFailedPrecondition)) {
    phase_ = Phase::kPrepared;
    return results[0];
  }
  Status first;
  for (Member& member : members_) member.current = member.current && member.taking_part;
  for (size_t i = 0; i < who.size(); ++i) {
    Member& member = members_[who[i]];
    member.current = results[i].ok();
    member.taking_part = !results[i].ok();
    if (first.ok()) first = results[i];
  }
  version_ = updated_version_ = *spec.version;
  serial_ = spec.serial;
  if (!first.ok()) {
    return annotate(first, fmt::format("update {} is decided and did not reach every shard; commit "
                                       "again, or begin the next one",
                                       spec.update_id));
  }
  ended_.add(spec.update_id, UpdateOutcome::kCommitted);
  phase_ = Phase::kIdle;
  return first;
}

Status UpdateCoordinator::commit(std::string_view update_id) {
  const std::lock_guard operation(operation_);
  if (ended_.is_committed(update_id)) return absl::OkStatus();
  const Status open = check_open(update_id);
  drop_if_late();
  RLGEN_RETURN_IF_ERROR(open);
  if (phase_ == Phase::kReceiving) {
    return absl::FailedPreconditionError(
        fmt::format("update {} is not prepared; prepare comes first", update_id));
  }
  if (phase_ == Phase::kPrepared) {
    if (options_.note) {
      RLGEN_RETURN_IF_ERROR(
          annotate(options_.note({spec_.update_id, *spec_.version, spec_.serial}),
                   fmt::format("update {} stays undecided, since the decision could not be noted",
                               update_id)));
    }
    const std::lock_guard lock(mutex_);
    phase_ = Phase::kDecided;
    deadline_.reset();
    timer_.clear();
  }
  return send_commits(spec_);
}

}  // namespace rlgen::generation
