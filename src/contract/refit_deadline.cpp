#include "contract/refit_deadline.h"

#include <fmt/format.h>

#include <cmath>

namespace rlgen {

Status check_refit_deadline(std::optional<double> refit_timeout_s) {
  if (!refit_timeout_s) return absl::OkStatus();
  if (std::isfinite(*refit_timeout_s) && *refit_timeout_s > 0.0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("refit_timeout_s is {}; it must be a finite number of seconds above 0, or not "
                  "set",
                  *refit_timeout_s));
}

Status reject_unenforceable_refit_deadline(std::string_view backend,
                                           std::optional<double> refit_timeout_s) {
  RLGEN_RETURN_IF_ERROR(check_refit_deadline(refit_timeout_s));
  if (!refit_timeout_s) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{} cannot keep a refit deadline of {} s: unset "
      "async_rl.generation_fleet_health.refit_timeout_s, or choose a transport whose workers watch "
      "over their own collective",
      backend, *refit_timeout_s));
}

}  // namespace rlgen
