#include "contract/ended_updates.h"

#include <fmt/format.h>

namespace rlgen {

void EndedUpdates::add(std::string_view update_id, UpdateOutcome outcome) {
  outcomes_.insert_or_assign(std::string(update_id), outcome);
}

bool EndedUpdates::contains(std::string_view update_id) const {
  return outcomes_.find(update_id) != outcomes_.end();
}

bool EndedUpdates::is_committed(std::string_view update_id) const {
  const auto found = outcomes_.find(update_id);
  return found != outcomes_.end() && found->second == UpdateOutcome::kCommitted;
}

bool EndedUpdates::is_dropped(std::string_view update_id) const {
  return contains(update_id) && !is_committed(update_id);
}

Status EndedUpdates::refusal(std::string_view update_id) const {
  const auto found = outcomes_.find(update_id);
  if (found == outcomes_.end()) {
    return absl::FailedPreconditionError(
        fmt::format("update {} is not open; begin comes first", update_id));
  }
  switch (found->second) {
    case UpdateOutcome::kExpired:
      return update_expired(update_id);
    case UpdateOutcome::kAborted:
      return absl::FailedPreconditionError(fmt::format("update {} was aborted", update_id));
    case UpdateOutcome::kCommitted:
      break;
  }
  return absl::FailedPreconditionError(fmt::format("update {} is committed", update_id));
}

Status update_expired(std::string_view update_id) {
  return absl::DeadlineExceededError(
      fmt::format("update {} passed its deadline and was dropped", update_id));
}

}  // namespace rlgen
