#include "models/families/latent.h"

#include <fmt/format.h>

#include <cmath>

#include "models/families/dense.h"
#include "models/families/experts.h"

namespace rlgen::models {
namespace {

constexpr Bounds<int32_t> kRank{1, 1 << 20};
constexpr Bounds<int32_t> kPart{1, 1 << 12};

void read_latent_sizes(ConfigReader& config, DecoderSpec* spec) {
  LatentSpec& latent = spec->latent;
  spec->heads = config.integer("num_attention_heads", {1, 1 << 14});
  if (config.integer_or("num_key_value_heads", spec->heads, {1, 1 << 14}) != spec->heads) {
    config.reject("num_key_value_heads",
                  fmt::format("but num_attention_heads is {}: heads of latent attention share no "
                              "keys but through the latent",
                              spec->heads));
  }
  if (!config.mentions("q_lora_rank")) config.integer("q_lora_rank", kRank);
  latent.query_rank = config.integer_or("q_lora_rank", 0, kRank);
  latent.rank = config.integer("kv_lora_rank", kRank);
  latent.plain = config.integer("qk_nope_head_dim", kPart);
  latent.rotated = config.integer("qk_rope_head_dim", kPart);
  latent.value = config.integer("v_head_dim", kPart);
  spec->kv_heads = 1;
  spec->head_dim = latent.rank + latent.rotated;
  for (const char* const key : {"head_dim", "qk_head_dim"}) {
    const int32_t derived = latent.rotated + (key[0] == 'q' ? latent.plain : 0);
    if (config.integer_or(key, derived, {1, 1 << 13}) == derived) continue;
    config.reject(key, fmt::format("but the parts of a head make it {}", derived));
  }
}

// Transformers has experts in every layer from the first on, as if the frequency were 1; other
// values are those of the families' own code.
void read_expert_layers(ConfigReader& config, int32_t first_dense, DecoderSpec* spec) {
  const int32_t first = config.integer_or("first_k_dense_replace", first_dense, {0, kMaxContext});
  const int32_t step = config.integer_or("moe_layer_freq", 1, {1, kMaxContext});
  for (int32_t i = 0; i < spec->layers; ++i) {
    spec->layer[size_t(i)].sparse = i >= first && i % step == 0;
  }
}

void read_shared_experts(ConfigReader& config, DecoderSpec* spec) {
  const int32_t shared = config.integer("n_shared_experts", {1, 1 << 10});
  if (int64_t(shared) * spec->experts.intermediate > 1 << 22) {
    config.reject("n_shared_experts",
                  fmt::format("which with moe_intermediate_size, {}, is more than 4194304",
                              spec->experts.intermediate));
    return;
  }
  spec->experts.shared_intermediate = shared * spec->experts.intermediate;
  spec->experts.shared_gate = false;
}

// Keys that change nothing here: losses of training, spreading over machines, model code that
// Transformers has built in.
void pass_over(ConfigReader& config) {
  for (const char* const key : {"aux_loss_alpha", "seq_aux", "ep_size", "auto_map"}) {
    config.has(key);
  }
}

}  // namespace

FamilyConfig read_latent(ConfigReader& config, const LatentDefaults& defaults) {
  FamilyConfig result = read_common(config, {.family = defaults.family});
  DecoderSpec& spec = result.spec;
  read_latent_sizes(config, &spec);
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  result.rotary = read_rotary(config, {spec.latent.rotated, spec.max_position, 10000.0});
  const double head = spec.latent.plain + spec.latent.rotated;
  spec.attention_scale = float(yarn_score_factor(result.rotary) / std::sqrt(head));
  read_experts(config, "n_routed_experts", "moe_intermediate_size", &spec);
  read_shared_experts(config, &spec);
  read_expert_layers(config, defaults.first_dense, &spec);
  spec.experts.scale =
      float(config.number_or("routed_scaling_factor", defaults.scale, {1e-6, 1e6}));
  pass_over(config);
  return result;
}

void read_groups(ConfigReader& config, int32_t least, DecoderSpec* spec) {
  ExpertSpec& experts = spec->experts;
  experts.groups = config.integer("n_group", {1, 1 << 10});
  experts.top_groups = config.integer("topk_group", {1, 1 << 10});
  if (experts.count % experts.groups != 0 || experts.count / experts.groups < least) {
    config.reject("n_group", fmt::format("which does not part {} experts ({}) into groups of at "
                                         "least {}",
                                         experts.count, experts.count_key, least));
  } else if (experts.top_groups > experts.groups) {
    config.reject("topk_group", fmt::format("but n_group is {}", experts.groups));
  } else if (experts.count / experts.groups * experts.top_groups < experts.top_k) {
    config.reject("topk_group", fmt::format("groups of {} experts each, which are fewer than "
                                            "num_experts_per_tok, {}",
                                            experts.count / experts.groups, experts.top_k));
  }
}

void check_only(ConfigReader& config, const std::string& key, std::string_view served) {
  const std::string value = config.text_or(key, std::string(served));
  if (value == served) return;
  config.fail(
      absl::UnimplementedError(fmt::format("{}: {} is \"{}\", which is not implemented; "
                                           "\"{}\" is",
                                           config.file(), key, value, served)));
}

void check_off(ConfigReader& config, const std::string& key) {
  if (!config.flag_or(key, false)) return;
  config.fail(absl::UnimplementedError(
      fmt::format("{}: {} is true, which is not implemented for this family", config.file(), key)));
}

}  // namespace rlgen::models
