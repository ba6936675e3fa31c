#include <fmt/format.h>

#include "models/families/dense.h"

namespace rlgen::models {
namespace {

// `no_rope_layers` has 1 for layers with rotary embedding and 0 for those without; where it is
// absent every `no_rope_layer_interval`-th layer goes without.
void read_rotary_layers(ConfigReader& config, DecoderSpec* spec) {
  const std::string key = "no_rope_layers";
  const std::vector<double> flags = config.numbers(key, {0.0, 1.0});
  const int32_t interval = config.integer_or("no_rope_layer_interval", 4, {1, kMaxContext});
  const bool listed = config.has(key);
  if (listed && flags.size() < spec->layer.size()) {
    config.reject(key, fmt::format("expected at least {} flags, one a layer", spec->layers));
    return;
  }
  for (int32_t i = 0; i < spec->layers; ++i) {
    if (listed && flags[size_t(i)] != 0.0 && flags[size_t(i)] != 1.0) {
      config.reject(fmt::format("{}[{}]", key, i), "expected 0 or 1");
    }
    spec->layer[size_t(i)].rotary = listed ? flags[size_t(i)] == 1.0 : (i + 1) % interval != 0;
  }
}

}  // namespace

// SmolLM3: Llama with layers that have no position embedding; a sliding window, if switched on,
// holds in those layers unless `layer_types` says otherwise.
FamilyConfig read_smollm3(ConfigReader& config) {
  FamilyConfig result =
      read_dense(config, {.family = "smollm3", .rope_theta = 2000000.0, .tied_head = true});
  DecoderSpec& spec = result.spec;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  spec.mlp_bias = config.flag_or("mlp_bias", false);
  read_rotary_layers(config, &spec);
  const int32_t given = read_window(config, 0);
  const int32_t window = config.flag_or("use_sliding_window", false) ? given : 0;
  config.has("max_window_layers");  // written by its exporter; no layer depends on it
  const auto slides = [&](int32_t layer) { return !spec.layer[size_t(layer)].rotary; };
  read_layer_types(config, window, slides, &spec);
  return result;
}

}  // namespace rlgen::models
