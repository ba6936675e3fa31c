#include "models/families/dense.h"

namespace rlgen::models {

// Llama 2 and 3.x, SmolLM2: rotary in every layer, full attention, biases where the flags say so.
FamilyConfig read_llama(ConfigReader& config) {
  FamilyConfig result = read_dense(config, {.family = "llama", .kv_heads_given = false});
  DecoderSpec& spec = result.spec;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  spec.mlp_bias = config.flag_or("mlp_bias", false);
  return result;
}

}  // namespace rlgen::models
