#pragma once

#include <string_view>

#include "models/families/family.h"

namespace rlgen::models {

// Reads what DeepSeek-V2 and V3 have in common: sizes of latent attention (`q_lora_rank` is null
// where queries have no latent), its biases and the scale of its scores, rotary embedding of the
// rotated part, which layers have experts (from `first_k_dense_replace` on every
// `moe_layer_freq`-th) and the sizes of these. How the router chooses is left open, but for
// `routed_scaling_factor`. Keys of training and of distribution are passed over, and `auto_map`
// too: the code that these checkpoints bring is what Transformers has built in.
struct LatentDefaults {
  std::string_view family;
  int32_t first_dense = 0;
  double scale = 1.0;
};
FamilyConfig read_latent(ConfigReader& config, const LatentDefaults& defaults);

// Reads `n_group` and `topk_group`, which must be there: groups of one size, of `least` experts at
// least, and among those that may be chosen from enough for each token.
void read_groups(ConfigReader& config, int32_t least, DecoderSpec* spec);

// Refuses another value of `key` than `served`; absent is fine.
void check_only(ConfigReader& config, const std::string& key, std::string_view served);
// Refuses a flag that is set.
void check_off(ConfigReader& config, const std::string& key);

}  // namespace rlgen::models
