#include "base/status.h"

#include <absl/strings/cord.h>

namespace rlgen {

Status with_message(const Status& status, std::string_view message) {
  if (status.ok()) return status;
  Status changed(status.code(), to_absl(message));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    changed.SetPayload(type, payload);
  });
  return changed;
}

Status annotate(const Status& status, std::string_view context) {
  return with_message(status, std::string(context) + ": " + message_of(status));
}

}  // namespace rlgen
