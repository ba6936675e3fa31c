#pragma once

#include <absl/functional/function_ref.h>

#include <string_view>

#include "models/families/family.h"

namespace rlgen::models {

// What differs between the families in the keys that all of them have.
struct DenseDefaults {
  std::string_view family;
  double rope_theta = 10000.0;
  double norm_eps = 1e-6;
  bool tied_head = false;
  int32_t head_dim = 0;        // where the file gives none; 0: hidden_size / num_attention_heads
  bool kv_heads_given = true;  // num_key_value_heads must be there; false: it may follow the heads
};

// Reads the sizes that do not concern attention, norm, activation and tied head, and makes every
// layer rotary with full attention.
FamilyConfig read_common(ConfigReader& config, const DenseDefaults& defaults);

// The same with attention heads and rotary embedding. Biases and query and key norms are left off.
FamilyConfig read_dense(ConfigReader& config, const DenseDefaults& defaults);

// `sliding_window` in keys: 0 when it is null, `absent` when the file does not mention it.
int32_t read_window(ConfigReader& config, int32_t absent);

// What Transformers takes for Mistral, Qwen2 and Qwen3 where the file mentions no window.
inline constexpr int32_t kUsualWindow = 4096;

// Gives `window` to every layer that `layer_types` calls "sliding_attention" and 0 to those it
// calls "full_attention"; where the key is absent, to the layers that `slides` picks. A list of
// another length, an unknown kind, or a layer that the list lets slide while window is 0 is an
// error.
void read_layer_types(ConfigReader& config, int32_t window,
                      absl::FunctionRef<bool(int32_t layer)> slides, DecoderSpec* spec);

}  // namespace rlgen::models
