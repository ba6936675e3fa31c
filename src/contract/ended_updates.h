#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen {

enum class UpdateOutcome { kCommitted, kAborted, kExpired };

// What became of the updates that are no longer open, for whoever asks after one by its id. Keeps
// every id, since ids are unique for good. One thread at a time.
class EndedUpdates {
 public:
  void add(std::string_view update_id, UpdateOutcome outcome);

  bool contains(std::string_view update_id) const;
  bool is_committed(std::string_view update_id) const;
  bool is_dropped(std::string_view update_id) const;  // aborted or expired

  // Why a call for that update, which is not open, is refused: kDeadlineExceeded where it expired,
  // else kFailedPrecondition (committed, aborted, never begun).
  Status refusal(std::string_view update_id) const;

 private:
  std::map<std::string, UpdateOutcome, std::less<>> outcomes_;
};

// kDeadlineExceeded: the update passed its deadline.
Status update_expired(std::string_view update_id);

}  // namespace rlgen
