#pragma once

#include <cstdint>

#include "models/model.h"

namespace rlgen::cli {

// What a model costs, from its shapes.
struct ModelCost {
  int64_t body_bytes = 0;    // weights that every step reads, packed, without the head
  int64_t expert_bytes = 0;  // those of all experts, of which a step reads some
  int64_t head_bytes = 0;    // those of the head, read where logits are wanted
  double body_flops = 0.0;   // a row, without attention and head; of experts only its own
  double head_flops = 0.0;   // a row whose logits are wanted
  // A row and a key that it sees. Latent attention is absorbed, and counted so: with scores over
  // latent and rotated part and values of the latent.
  double attention_flops = 0.0;
  int64_t kv_bytes = 0;       // keys and values of one token
  double expert_share = 0.0;  // of the experts, that a row goes through

  // What all of it holds.
  int64_t weight_bytes() const { return body_bytes + head_bytes + expert_bytes; }
  // Bytes of weights that a step of `rows` rows reads. Of the experts those that at least one row
  // is expected to go through, were each row's as good as drawn: 1 - (1 - share)^rows of them.
  double step_bytes(double rows) const;
};

// Sums over the slots of the model's weight table; `table` has its layout resolved.
ModelCost model_cost(const models::DecoderSpec& spec, const models::NameTable& table,
                     const models::DecoderSlots& slots, int64_t kv_bytes_per_token);

// What a piece of work needs at least.
struct Work {
  double flops = 0.0;
  double bytes = 0.0;
};

// `prompts` prompts of `tokens` tokens each, from nothing to the first new token, in steps of
// `rows_per_step` rows: causal attention, logits for each last row, weights read once a step.
Work prefill_work(const ModelCost& cost, int64_t prompts, int64_t tokens, int64_t rows_per_step);

// One token each for sequences whose new token sees `keys` keys in sum, in `steps` steps.
Work decode_work(const ModelCost& cost, int64_t tokens, int64_t keys, double steps);

// Seconds that the work takes at least on a machine of these limits.
double least_seconds(const Work& work, double flops, double read_bytes);

}  // namespace rlgen::cli
