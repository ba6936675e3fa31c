#include <fmt/format.h>

#include "models/families/decoder_names.h"
#include "models/families/dense.h"
#include "models/families/experts.h"

namespace rlgen::models {
namespace {

// Experts in 4 bits are another arithmetic; the same model in bfloat16 is served.
void refuse_quantized(ConfigReader& config) {
  const std::string key = "quantization_config";
  if (!config.has(key)) return;
  const std::string method = config.text_or(key + ".quant_method", "");
  const std::string_view advice =
      method == "mxfp4" ? "load the checkpoint in Transformers with Mxfp4Config(dequantize=True) "
                          "and save it in bfloat16 (docs/weights.md)"
                        : "save the checkpoint in bfloat16";
  config.fail(absl::UnimplementedError(
      fmt::format("{}: {}.quant_method is \"{}\": quantised weights are not served; {}",
                  config.file(), key, method, advice)));
}

// The configuration that Transformers takes where a file names no scaling.
void take_default_rotary(ConfigReader& config, RotaryParameters* rotary) {
  if (config.has("rope_scaling") || config.has("rope_parameters")) return;
  rotary->kind = RotaryKind::kYarn;
  rotary->factor = 32.0;
  rotary->original = 4096;
  rotary->truncate = false;
}

// Older names of two keys, which the original checkpoints carry beside the ones in force.
void check_older_names(ConfigReader& config, const FamilyConfig& read) {
  const int32_t experts =
      config.integer_or("experts_per_token", read.spec.experts.top_k, {1, kMaxContext});
  if (experts != read.spec.experts.top_k) {
    config.reject("experts_per_token",
                  fmt::format("but num_experts_per_tok is {}", read.spec.experts.top_k));
  }
  const int32_t context =
      config.integer_or("initial_context_length", read.rotary.original, {1, kMaxContext});
  if (context != read.rotary.original) {
    config.reject("initial_context_length",
                  fmt::format("but original_max_position_embeddings is {}", read.rotary.original));
  }
}

void read_gate(ConfigReader& config, kernels::Gating* gating) {
  if (gating->activation != kernels::Activation::kSilu) {
    config.reject("hidden_act",
                  "but the experts of this family have a gate of their own; expected silu");
  }
  gating->activation = kernels::Activation::kClampedSwiglu;
  gating->alpha = float(config.number_or("swiglu_alpha", 1.702, {1e-3, 1e3}));
  gating->limit = float(config.number_or("swiglu_limit", 7.0, {1e-3, 1e6}));
}

}  // namespace

// gpt-oss: experts with biases and a bounded gate in every layer, a router with a bias, a sink for
// every head, and a sliding window in every other layer from the first on unless `layer_types` says
// otherwise.
FamilyConfig read_gpt_oss(ConfigReader& config) {
  refuse_quantized(config);
  const int32_t head_dim = config.mentions("head_dim") ? 0 : 64;  // null: it follows from the heads
  FamilyConfig result = read_dense(
      config,
      {.family = "gpt_oss", .rope_theta = 150000.0, .norm_eps = 1e-5, .head_dim = head_dim});
  DecoderSpec& spec = result.spec;
  spec.sinks = true;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", true);
  const int32_t window = read_window(config, 128);
  if (window == 0 && !config.has("layer_types")) {
    config.reject("sliding_window", "but every other layer slides where layer_types is not there");
  }
  read_layer_types(
      config, window, [](int32_t layer) { return layer % 2 == 0; }, &spec);
  read_experts(config, "num_local_experts", "intermediate_size", &spec);
  make_all_sparse(&spec);
  spec.experts.normalize = spec.experts.router_bias = spec.experts.bias = true;
  read_gate(config, &spec.gating);
  take_default_rotary(config, &result.rotary);
  check_older_names(config, result);
  return result;
}

NameTable gpt_oss_names(const DecoderSpec& spec) {
  return decoder_names(spec, {.router = "mlp.router", .transposed = true});
}

}  // namespace rlgen::models
