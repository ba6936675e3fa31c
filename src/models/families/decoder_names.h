#pragma once

#include <string_view>

#include "models/decoder_spec.h"
#include "models/weights.h"

namespace rlgen::models {

// What a family calls the tensors of its experts, below a layer's prefix. Checkpoints have them one
// by one; the grouped names are the same in all families.
struct ExpertNames {
  std::string_view router = "mlp.gate";
  std::string_view experts = "mlp.experts";
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
  std::string_view shared = "mlp.shared_expert";
  // The grouped tensors are the only ones, and hold the matrices transposed, gate and up in turns.
  bool transposed = false;
};

// The names of a decoder with separate q, k, v, gate and up projections, as Llama has them:
//   model.embed_tokens, model.layers.N.{input_layernorm, self_attn.{q,k,v,o}_proj,
//   self_attn.{q,k}_norm (of a head, or of all), post_attention_layernorm,
//   mlp.{gate,up,down}_proj}, model.norm, lm_head
// and in sparse layers, of E experts of I elements each, in place of the last three
//   <router>                                  [E, hidden]
//   <experts>.M.{<gate>, <up>}                [I, hidden], the separate form
//   <experts>.M.<down>                        [hidden, I]
//   mlp.experts.gate_up_proj                  [E, 2 I, hidden], the grouped form
//   mlp.experts.down_proj                     [E, hidden, I]
// and of a shared expert of S elements
//   <shared>.{gate,up}_proj                   [S, hidden]
//   <shared>.down_proj                        [hidden, S]
//   mlp.shared_expert_gate                    [1, hidden], if it has one
// all but the grouped ones followed by ".weight". A router that is not called mlp.gate is so in the
// grouped form. A bias of its choice is
//   <router>.e_score_correction_bias          [E]
// Transposed ones, alone, are
//   <router>.{weight, bias}                   [E, hidden], [E]
//   <experts>.gate_up_proj{, _bias}           [E, hidden, 2 I], [E, 2 I]: gate 0, up 0, gate 1, ...
//   <experts>.down_proj{, _bias}              [E, I, hidden], [E, hidden]
// Where heads have sinks, self_attn.sinks [heads] holds them. Latent attention has the names of
// latent_names.h in place of q, k, v and o.
// Slots: "embedding", "layers.N.{input_norm, qkv, qkv_bias, q_norm, k_norm, sinks, output,
// output_bias, post_norm, gate_up, gate_up_bias, down, down_bias}", in sparse layers "layers.N.{
// router, router_bias, router_choice_bias, experts_gate_up, experts_gate_up_bias, experts_down,
// experts_down_bias, shared_gate_up, shared_down, shared_gate}", "final_norm", "head" (a tied head
// is the embedding's slot, and its name optional).
NameTable decoder_names(const DecoderSpec& spec, const ExpertNames& experts);

// Of a dense decoder, or of one whose experts have the usual names.
NameTable dense_names(const DecoderSpec& spec);

}  // namespace rlgen::models
