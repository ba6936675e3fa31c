#pragma once

#include "models/decoder_spec.h"
#include "models/families/table_builder.h"

namespace rlgen::models {

// The tensors of latent attention in one layer, below its prefix, with H heads, each but the norms
// followed by ".weight":
//   self_attn.q_a_proj              [query_rank, hidden], with its bias where the model has biases
//   self_attn.q_a_layernorm         [query_rank]
//   self_attn.q_b_proj              [H * (plain + rotated), query_rank]; without a latent of
//   queries self_attn.q_proj                [H * (plain + rotated), hidden] in place of these three
//   self_attn.kv_a_proj_with_mqa    [rank + rotated, hidden], with its bias likewise
//   self_attn.kv_a_layernorm        [rank]
//   self_attn.kv_b_proj             [H * (plain + value), rank]
//   self_attn.o_proj                [hidden, H * value], with its bias likewise
// Slots: "layers.N.{query_latent, query_latent_bias, query_latent_norm, queries, latent,
// latent_bias, latent_norm, latent_keys, latent_values, output, output_bias}". Of kv_b_proj each
// head's first `plain` rows are the columns of its matrix [rank, plain] in latent_keys, the others
// the rows of its matrix [value, rank] in latent_values.
void add_latent_attention(const DecoderSpec& spec, LayerNames* names);

}  // namespace rlgen::models
