#include "contract/manifest_error.h"

#include <absl/strings/cord.h>

namespace rlgen {
namespace {

constexpr char kManifestPayload[] = "rlgen/manifest_error";

}  // namespace

Status manifest_error(Status status) {
  if (absl::IsInvalidArgument(status)) status.SetPayload(kManifestPayload, absl::Cord());
  return status;
}

bool is_manifest_error(const Status& status) {
  return status.GetPayload(kManifestPayload).has_value();
}

}  // namespace rlgen
