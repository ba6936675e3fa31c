#include "models/families/dense.h"

namespace rlgen::models {

// Qwen3: norms on query and key heads, head_dim of its own, biases only by `attention_bias`, and
// Qwen2's rule for sliding windows.
FamilyConfig read_qwen3(ConfigReader& config) {
  FamilyConfig result = read_dense(config, {.family = "qwen3", .head_dim = 128});
  DecoderSpec& spec = result.spec;
  spec.qk_norm = true;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  const int32_t given = read_window(config, kUsualWindow);
  const int32_t window = config.flag_or("use_sliding_window", false) ? given : 0;
  const int32_t first = config.integer_or("max_window_layers", 28, {0, kMaxContext});
  read_layer_types(
      config, window, [&](int32_t layer) { return layer >= first; }, &spec);
  return result;
}

}  // namespace rlgen::models
