#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/moe.h"
#include "kernels/ops.h"

namespace rlgen::models {

// Rotary embedding with its scaling resolved for the context in force.
struct RotarySpec {
  std::string name = "default";   // default, linear, dynamic, llama3, yarn, longrope
  std::vector<float> inv_freq;    // [rotary_dim / 2]
  float attention_factor = 1.0f;  // multiplies cos and sin
};

// What one decoder layer does; layers of one model may differ.
struct LayerSpec {
  bool rotary = true;   // false: no position embedding in this layer
  int32_t window = 0;   // sliding window in keys, the query's own included; 0: full
  bool sparse = false;  // DecoderSpec::experts in place of the dense feed-forward
};

// Latent attention (DeepSeek-V2 and V3): keys and values of all heads are made from one latent of a
// token, which with a rotated part behind it is all that the cache keeps.
struct LatentSpec {
  int32_t rank = 0;        // elements of the latent; 0: the model has ordinary attention
  int32_t query_rank = 0;  // of the latent that queries are made from; 0: from the hidden state
  int32_t plain = 0;       // elements of a query or key head that are not rotated
  int32_t rotated = 0;     // and that are; the rotated part of keys is one for all heads
  int32_t value = 0;       // elements of a value head
  // The rotated pairs are elements 2i and 2i + 1; false: i and i + half.
  bool interleaved = true;
  float norm_eps = 1e-6f;  // of the norms of both latents
};

// The experts of a sparse layer, alike in all of them: a router sends each row through some.
struct ExpertSpec {
  int32_t count = 0;         // 0: the model has none
  int32_t top_k = 0;         // experts of a row
  int32_t intermediate = 0;  // of each expert
  // Of one more that every row goes through; 0: there is none.
  int32_t shared_intermediate = 0;
  bool shared_gate = true;   // it is weighted by a gate of its own
  bool normalize = false;    // the weights of a row's experts are divided by their sum
  bool router_bias = false;  // added to the router's scores
  bool bias = false;         // of both layers of every expert
  // The rest of kernels::RouterRule.
  kernels::RouterScores scores = kernels::RouterScores::kSoftmax;
  bool choice_bias = false;
  int32_t groups = 1;
  int32_t top_groups = 1;
  kernels::GroupWorth group_worth = kernels::GroupWorth::kLargest;
  float scale = 1.0f;
  std::string count_key;  // of config.json, for messages: "num_experts"
};

// A decoder as plain data: every family is a point in this space.
struct DecoderSpec {
  std::string family;      // "llama", "mistral", ...
  int32_t vocab_rows = 0;  // rows of embedding and head
  int32_t hidden = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;  // 1 with latent attention
  int32_t head_dim = 0;  // as keys are cached: with latent attention latent.rank + latent.rotated
  int32_t intermediate = 0;
  float norm_eps = 1e-6f;
  float attention_scale = 0.0f;
  kernels::Gating gating;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool sinks = false;         // each query head has a score without a value in its softmax
  bool qk_norm = false;       // RMS norm of every query and key head
  bool qk_norm_rows = false;  // it is one over all query heads of a row, and one over all key heads
  float clip_qkv = 0.0f;      // with qk_norm_rows: largest size of an element of queries, keys and
                              // values, behind the norms; 0: any
  bool tied_head = false;
  RotarySpec rotary;
  LatentSpec latent;
  ExpertSpec experts;
  std::vector<LayerSpec> layer;  // [layers]

  // Layers that a checkpoint may have behind the last: their tensors are passed over.
  int32_t passed_over_layers = 0;
  int32_t max_position = 0;  // the model's own limit
  std::vector<int32_t> eos_token_ids;
};

}  // namespace rlgen::models
