#pragma once

#include "base/status.h"

namespace rlgen {

// Marks kInvalidArgument as an error of an update's manifest: a tensor that it lists does not fit
// the model, the stored type or the rest of the list, or one is missing. The mark goes with the
// status and changes neither code nor error type; a transport whose callers expect a type of their
// own for it looks for it. Any other status comes back as it was.
Status manifest_error(Status status);

bool is_manifest_error(const Status& status);

}  // namespace rlgen
