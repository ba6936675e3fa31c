#include "models/families/dense.h"
#include "models/families/experts.h"

namespace rlgen::models {

// Qwen2-MoE and Qwen1.5-MoE: Qwen2's biases unless `qkv_bias` says no, over experts and one more
// that every token goes through. A sliding window, if switched on, holds in every other layer below
// `max_window_layers`, from the first on.
FamilyConfig read_qwen2_moe(ConfigReader& config) {
  FamilyConfig result = read_dense(config, {.family = "qwen2_moe"});
  DecoderSpec& spec = result.spec;
  spec.qkv_bias = config.flag_or("qkv_bias", true);
  const std::string key = "sliding_window";
  // Transformers writes 0 for a window that is switched off.
  const int32_t given =
      config.mentions(key) ? config.integer_or(key, 0, {0, kMaxContext}) : kUsualWindow;
  const int32_t window = config.flag_or("use_sliding_window", false) ? given : 0;
  const int32_t end = config.integer_or("max_window_layers", 28, {0, kMaxContext});
  read_layer_types(
      config, window, [&](int32_t layer) { return layer % 2 == 0 && layer < end; }, &spec);
  read_experts(config, "num_experts", "moe_intermediate_size", &spec);
  spec.experts.shared_intermediate =
      config.integer("shared_expert_intermediate_size", {1, 1 << 22});
  spec.experts.normalize = config.flag_or("norm_topk_prob", false);
  read_sparse_layers(config, &spec);
  return result;
}

}  // namespace rlgen::models
