#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "contract/batch/generation_specs.h"
#include "contract/rollout.h"
#include "contract/routes/route_span.h"

namespace rlgen {

// The four columns of the routes that `rollouts` bring along, of `width` places a row, as
// lay_out_routes has them. Errors name the row: kInternal where a rollout has no routes, though
// `facts` says that they are recorded (one without any row has a span of none); kInvalidArgument
// for routes that do not begin with the first token or look otherwise than `facts` says, and
// lay_out_routes's.
Status lay_out_route_columns(std::span<const Rollout> rollouts, const RouteFacts& facts,
                             int64_t width, GenerationOutputSpec* batch);

// What to tell the trainer of routes that are missing, where its own router decides: begins with
// "R3 router replay fallback" and names at most eight rows. Empty where none is missing.
std::string route_fallback_warning(const GenerationOutputSpec& batch);

}  // namespace rlgen
