#pragma once

#include "models/forward_step.h"

// Latent attention, always absorbed: the matrices that would make keys and values of every cached
// latent are applied to the queries before attention and to what the heads attended to behind it.
// So prefill and decode are one arithmetic. Formulas in docs/numbers.md.
namespace rlgen::models {

// From Workspace::normed, of every row: its latent and rotated part go to the cache of `layer`, its
// queries, made for latents as keys and rotated, to Workspace::qkv.
void project_latents(Step& step, int32_t layer, const DecoderSlots::Layer& slots);

// Attention of these queries; what each head gives goes to Workspace::attended.
void attend_latents(Step& step, int32_t layer, const DecoderSlots::Layer& slots);

}  // namespace rlgen::models
