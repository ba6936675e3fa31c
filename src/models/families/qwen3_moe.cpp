#include "models/families/dense.h"
#include "models/families/experts.h"

namespace rlgen::models {

// Qwen3-MoE: Qwen3's attention, with heads of hidden / heads elements unless head_dim says
// otherwise, over experts. A sliding window, if switched on, holds in every layer.
FamilyConfig read_qwen3_moe(ConfigReader& config) {
  FamilyConfig result = read_dense(config, {.family = "qwen3_moe"});
  DecoderSpec& spec = result.spec;
  spec.qk_norm = true;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  const int32_t given = read_window(config, kUsualWindow);
  const int32_t window = config.flag_or("use_sliding_window", false) ? given : 0;
  for (LayerSpec& layer : spec.layer) layer.window = window;
  config.has("max_window_layers");  // written by its exporter; no layer depends on it
  read_experts(config, "num_experts", "moe_intermediate_size", &spec);
  read_sparse_layers(config, &spec);
  spec.experts.normalize = config.flag_or("norm_topk_prob", false);
  return result;
}

}  // namespace rlgen::models
