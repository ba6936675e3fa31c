#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// The experts of a sparse layer, alike in all of them: a router sends each row through some.
struct ExpertSpec {
  int32_t count = 0;         // 0: the model has none
  int32_t top_k = 0;         // experts of a row
  int32_t intermediate = 0;  // of each expert
  // Of one more that every row goes through, weighted by a gate of its own; 0: there is none.
  int32_t shared_intermediate = 0;
  bool normalize = false;    // the weights of a row's experts are divided by their sum
  bool router_bias = false;  // added to the router's scores
  bool bias = false;         // of both layers of every expert
  std::string count_key;     // of config.json, for messages: "num_experts"
};

// A decoder as plain data: every family is a point in this space.
struct DecoderSpec {
  std::string family;      // "llama", "mistral", ...
  int32_t vocab_rows = 0;  // rows of embedding and head
  int32_t hidden = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
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
  ExpertSpec experts;
  std::vector<LayerSpec> layer;  // [layers]

  int32_t max_position = 0;  // the model's own limit
  std::vector<int32_t> eos_token_ids;
};

}  // namespace rlgen::models
