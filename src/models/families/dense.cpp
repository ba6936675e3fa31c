#include "models/families/dense.h"

#include <fmt/format.h>

#include <cmath>

namespace rlgen::models {
namespace {

constexpr Bounds<int32_t> kWidth{1, 1 << 20};
constexpr Bounds<int32_t> kHeads{1, 1 << 14};
constexpr Bounds<int32_t> kHeadDim{1, 1 << 12};

kernels::Activation read_activation(ConfigReader& config) {
  const std::string name = config.text_or("hidden_act", "silu");
  if (name == "silu" || name == "swish") return kernels::Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return kernels::Activation::kGeluTanh;
  config.fail(absl::UnimplementedError(
      fmt::format("{}: hidden_act is \"{}\", which is not implemented; silu and gelu_pytorch_tanh "
                  "are",
                  config.file(), name)));
  return kernels::Activation::kSilu;
}

void read_heads(ConfigReader& config, const DenseDefaults& defaults, DecoderSpec* spec) {
  spec->heads = config.integer("num_attention_heads", kHeads);
  spec->kv_heads = defaults.kv_heads_given
                       ? config.integer("num_key_value_heads", kHeads)
                       : config.integer_or("num_key_value_heads", spec->heads, kHeads);
  if (spec->heads % spec->kv_heads != 0) {
    config.reject("num_key_value_heads",
                  fmt::format("which does not divide num_attention_heads, {}", spec->heads));
  }
  const bool derived = !config.has("head_dim") && defaults.head_dim == 0;
  if (derived && spec->hidden % spec->heads != 0) {
    config.reject("num_attention_heads",
                  fmt::format("which does not divide hidden_size, {}, and there is no head_dim",
                              spec->hidden));
  }
  const int32_t otherwise = derived ? spec->hidden / spec->heads : defaults.head_dim;
  spec->head_dim = config.integer_or("head_dim", otherwise, kHeadDim);
  if (spec->head_dim < kHeadDim.low || spec->head_dim > kHeadDim.high) {
    config.reject("hidden_size", fmt::format("which makes heads of {} elements", spec->head_dim));
  }
}

}  // namespace

FamilyConfig read_common(ConfigReader& config, const DenseDefaults& defaults) {
  FamilyConfig result;
  DecoderSpec& spec = result.spec;
  spec.family = std::string(defaults.family);
  spec.vocab_rows = config.integer("vocab_size", {1, 1 << 24});
  spec.hidden = config.integer("hidden_size", kWidth);
  spec.layers = config.integer("num_hidden_layers", {1, 1 << 12});
  spec.intermediate = config.integer("intermediate_size", {1, 1 << 22});
  spec.norm_eps = float(config.number_or("rms_norm_eps", defaults.norm_eps, {1e-20, 1.0}));
  spec.max_position = config.integer("max_position_embeddings", {2, kMaxContext});
  spec.gating.activation = read_activation(config);
  spec.tied_head = config.flag_or("tie_word_embeddings", defaults.tied_head);
  spec.layer.resize(size_t(spec.layers));
  return result;
}

FamilyConfig read_dense(ConfigReader& config, const DenseDefaults& defaults) {
  FamilyConfig result = read_common(config, defaults);
  DecoderSpec& spec = result.spec;
  read_heads(config, defaults, &spec);
  spec.attention_scale = float(1.0 / std::sqrt(double(spec.head_dim)));
  result.rotary = read_rotary(config, {spec.head_dim, spec.max_position, defaults.rope_theta});
  return result;
}

int32_t read_window(ConfigReader& config, int32_t absent) {
  const std::string key = "sliding_window";
  return config.mentions(key) ? config.integer_or(key, 0, {1, kMaxContext}) : absent;
}

void read_layer_types(ConfigReader& config, int32_t window,
                      absl::FunctionRef<bool(int32_t layer)> slides, DecoderSpec* spec) {
  const std::string key = "layer_types";
  const std::vector<std::string> types = config.texts(key);
  const bool listed = config.has(key);
  if (listed && types.size() != spec->layer.size()) {
    config.reject(key, fmt::format("expected one kind for each of {} layers", spec->layers));
    return;
  }
  for (int32_t i = 0; i < spec->layers; ++i) {
    const bool sliding = listed ? types[size_t(i)] == "sliding_attention" : slides(i);
    spec->layer[size_t(i)].window = sliding ? window : 0;
    if (!listed) continue;
    if (!sliding && types[size_t(i)] != "full_attention") {
      config.fail(absl::UnimplementedError(
          fmt::format("{}: {}[{}] is \"{}\"; full_attention and sliding_attention are implemented",
                      config.file(), key, i, types[size_t(i)])));
    }
    if (sliding && window == 0) {
      config.reject(
          fmt::format("{}[{}]", key, i),
          "a layer slides, but sliding_window is off (null, or use_sliding_window false)");
    }
  }
}

}  // namespace rlgen::models
