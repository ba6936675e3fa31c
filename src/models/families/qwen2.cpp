#include "models/families/dense.h"

namespace rlgen::models {

// Qwen2 and Qwen2.5: biases on q, k and v unless `attention_bias` says no; a sliding window from
// layer `max_window_layers` on, if `use_sliding_window` switches it on.
FamilyConfig read_qwen2(ConfigReader& config) {
  FamilyConfig result = read_dense(config, {.family = "qwen2"});
  DecoderSpec& spec = result.spec;
  spec.qkv_bias = config.flag_or("attention_bias", true);
  const int32_t given = read_window(config, kUsualWindow);
  const int32_t window = config.flag_or("use_sliding_window", false) ? given : 0;
  const int32_t first = config.integer_or("max_window_layers", 28, {0, kMaxContext});
  read_layer_types(
      config, window, [&](int32_t layer) { return layer >= first; }, &spec);
  return result;
}

}  // namespace rlgen::models
