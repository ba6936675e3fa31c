#pragma once

#include "models/forward_step.h"

namespace rlgen::models {

// The feed-forward of a sparse layer, of the first `rows` rows: norm, router, experts and what they
// add to Workspace::hidden. Takes the batch's given routes and writes those it asks for. In the
// last layer, where all rows came for their routes, goes on with the wanted ones alone. Returns the
// number of rows that are left.
int64_t add_experts(Step& step, int64_t rows, const DecoderSlots::Layer& slots, bool last);

}  // namespace rlgen::models
