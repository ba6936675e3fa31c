#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"

namespace rlgen {

// OK for no deadline and for a finite number of seconds above 0; else kInvalidArgument with the
// value.
Status check_refit_deadline(std::optional<double> refit_timeout_s);

// Refuses a deadline that `backend` cannot keep: kUnimplemented with the backend, the value and the
// key to unset, after check_refit_deadline's errors. No deadline is OK.
Status reject_unenforceable_refit_deadline(std::string_view backend,
                                           std::optional<double> refit_timeout_s);

}  // namespace rlgen
