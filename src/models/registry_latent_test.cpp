#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/decoder.h"
#include "models/test_config.h"

// The configurations of families with latent attention.
namespace rlgen::models {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;
using ::testing::HasSubstr;

std::vector<bool> layers_with_experts(const json& config) {
  std::vector<bool> result;
  for (const LayerSpec& layer : accept(config).layer) result.push_back(layer.sparse);
  return result;
}

TEST(Latent, SizesOfHeadsAndOfTheCache) {
  for (const char* const name : {"deepseek_v2", "deepseek_v3"}) {
    const DecoderSpec spec = accept(config_of(name));
    EXPECT_EQ(spec.latent.rank, 20);
    EXPECT_EQ(spec.latent.query_rank, 24);
    EXPECT_EQ(spec.latent.plain, 12);
    EXPECT_EQ(spec.latent.rotated, 8);
    EXPECT_EQ(spec.latent.value, 10);
    EXPECT_TRUE(spec.latent.interleaved);
    // The norms of the latents do not follow rms_norm_eps.
    EXPECT_EQ(spec.norm_eps, 1e-5f);
    EXPECT_EQ(spec.latent.norm_eps, 1e-6f);
    EXPECT_EQ(spec.heads, 4);
    EXPECT_EQ(spec.rotary.inv_freq.size(), 4u);
    EXPECT_EQ(qkv_size(spec), 4 * 28);
    EXPECT_EQ(attended_size(spec), 4 * 10);
    const kernels::KvLayout layout = kv_layout(spec, DType::kBFloat16, 16);
    // A latent and a rotated part for each token and layer, once for all heads.
    EXPECT_EQ(layout.block_stride() / 16, size_t(3 * (20 + 8) * 2));
    EXPECT_EQ(layout.value_dim, 20);
    EXPECT_TRUE(layout.values_in_keys);
  }
}

TEST(Latent, FB156_TheScaleOfTheScores) {
  const json config = config_of("deepseek_v3");
  const double term = 0.1 * std::log(4.0) + 1.0;
  EXPECT_FLOAT_EQ(accept(config).attention_scale, float(term * term / std::sqrt(20.0)));
  // Both mscale terms are equal: the rotation keeps its size (FB-157).
  EXPECT_EQ(accept(config).rotary.attention_factor, 1.0f);
  json section = config["rope_scaling"];
  section.erase("mscale_all_dim");
  EXPECT_FLOAT_EQ(accept(with(config, {{"rope_scaling", section}})).attention_scale,
                  float(1.0 / std::sqrt(20.0)));
  EXPECT_FLOAT_EQ(accept(without(config, "rope_scaling")).attention_scale,
                  float(1.0 / std::sqrt(20.0)));
}

// Of unequal terms the scores have the second one squared, and the rotation the share of the first.
TEST(Latent, FB156_FB157_UnequalTermsScaleScoresAndRotationApart) {
  for (const char* const name : {"deepseek_v2", "deepseek_v2_lite", "deepseek_v3"}) {
    const json config = config_of(name);
    json section = config["rope_scaling"];
    section.update({{"mscale", 1.0}, {"mscale_all_dim", 0.707}});
    const DecoderSpec spec = accept(with(config, {{"rope_scaling", section}}));
    const double log_factor = std::log(section["factor"].get<double>());
    const double first = 0.1 * log_factor + 1.0;
    const double second = 0.1 * 0.707 * log_factor + 1.0;
    const double head = spec.latent.plain + spec.latent.rotated;
    EXPECT_FLOAT_EQ(spec.attention_scale, float(second * second / std::sqrt(head))) << name;
    EXPECT_FLOAT_EQ(spec.rotary.attention_factor, float(first / second)) << name;
    EXPECT_NE(spec.rotary.attention_factor, 1.0f) << name;
  }
}

TEST(Latent, QueriesWithAndWithoutALatent) {
  const json config = config_of("deepseek_v3");
  EXPECT_EQ(accept(with(config, {{"q_lora_rank", nullptr}})).latent.query_rank, 0);
  EXPECT_THAT(wrong(without(config, "q_lora_rank")), HasSubstr("q_lora_rank is missing"));
  const NameTable latent = find_family("deepseek_v3")->names(accept(config));
  EXPECT_NE(latent.find("model.layers.0.self_attn.q_b_proj.weight"), nullptr);
  EXPECT_EQ(latent.find("model.layers.0.self_attn.q_proj.weight"), nullptr);
  const NameTable plain = find_family("deepseek_v3")->names(accept(config_of("deepseek_v3_plain")));
  EXPECT_EQ(plain.find("model.layers.0.self_attn.q_proj.weight")->shape, (Shape{80, 40}));
  EXPECT_EQ(plain.find("model.layers.0.self_attn.q_proj.bias"), nullptr);
  EXPECT_EQ(plain.find("model.layers.0.self_attn.kv_a_proj_with_mqa.bias")->shape, Shape{28});
  EXPECT_EQ(plain.find("model.layers.0.self_attn.o_proj.bias")->shape, Shape{40});
}

TEST(Latent, LayersWithExperts) {
  const json config = config_of("deepseek_v3");
  EXPECT_EQ(layers_with_experts(config), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(layers_with_experts(with(config, {{"moe_layer_freq", 2}})),
            (std::vector<bool>{false, false, true}));
  EXPECT_EQ(layers_with_experts(without(config, "first_k_dense_replace")),
            (std::vector<bool>{false, false, false}));
  EXPECT_EQ(layers_with_experts(without(config_of("deepseek_v2"), "first_k_dense_replace")),
            (std::vector<bool>{true, true, true}));
}

TEST(DeepseekV3, ARouterOfSigmoidsInGroups) {
  const json config = config_of("deepseek_v3");
  const ExpertSpec experts = accept(config).experts;
  EXPECT_EQ(experts.count, 16);
  EXPECT_EQ(experts.top_k, 4);
  EXPECT_EQ(experts.shared_intermediate, 40);
  EXPECT_FALSE(experts.shared_gate);
  EXPECT_EQ(experts.scores, kernels::RouterScores::kSigmoid);
  EXPECT_EQ(experts.group_worth, kernels::GroupWorth::kTwoLargest);
  EXPECT_TRUE(experts.choice_bias && experts.normalize);
  EXPECT_EQ(experts.groups, 4);
  EXPECT_EQ(experts.top_groups, 2);
  EXPECT_EQ(experts.scale, 1.5f);
  EXPECT_EQ(accept(without(config, "routed_scaling_factor")).experts.scale, 2.5f);
  EXPECT_TRUE(accept(without(config, "norm_topk_prob")).experts.normalize);
  EXPECT_FALSE(accept(config_of("deepseek_v3_plain")).experts.normalize);
  EXPECT_FALSE(accept(config_of("deepseek_v3_plain")).latent.interleaved);
}

TEST(DeepseekV2, ARouterOfSoftmaxWithAndWithoutGroups) {
  const json config = config_of("deepseek_v2");
  const ExpertSpec limited = accept(config).experts;
  EXPECT_EQ(limited.scores, kernels::RouterScores::kSoftmax);
  EXPECT_EQ(limited.group_worth, kernels::GroupWorth::kLargest);
  EXPECT_TRUE(!limited.choice_bias && !limited.normalize);
  EXPECT_EQ(limited.groups, 4);
  EXPECT_EQ(limited.top_groups, 2);
  EXPECT_EQ(limited.scale, 3.0f);
  EXPECT_EQ(accept(without(config, "routed_scaling_factor")).experts.scale, 1.0f);
  // Greedy does not look at groups.
  EXPECT_EQ(accept(with(config, {{"topk_method", "greedy"}})).experts.groups, 1);
  EXPECT_EQ(accept(without(config, "topk_method")).experts.groups, 1);
}

TEST(Latent, CountsThatCannotBeAreNamed) {
  const json config = config_of("deepseek_v3");
  EXPECT_THAT(wrong(with(config, {{"n_group", 3}})),
              HasSubstr("n_group is 3, which does not part 16 experts (n_routed_experts)"));
  EXPECT_THAT(wrong(with(config, {{"n_group", 16}})), HasSubstr("groups of at least 2"));
  EXPECT_THAT(wrong(with(config, {{"topk_group", 5}})), HasSubstr("topk_group is 5, but n_group"));
  EXPECT_THAT(wrong(with(config, {{"num_experts_per_tok", 9}})),
              HasSubstr("topk_group is 2, groups of 4 experts each, which are fewer"));
  EXPECT_THAT(wrong(with(config, {{"num_experts_per_tok", 17}})),
              HasSubstr("but n_routed_experts is 16"));
  EXPECT_THAT(wrong(with(config, {{"num_key_value_heads", 2}})),
              HasSubstr("num_key_value_heads is 2, but num_attention_heads is 4"));
  EXPECT_THAT(wrong(with(config, {{"qk_rope_head_dim", 7}})), HasSubstr("needs an even one"));
  EXPECT_THAT(wrong(with(config, {{"head_dim", 16}})),
              HasSubstr("head_dim is 16, but the parts of a head make it 8"));
  EXPECT_THAT(wrong(with(config, {{"qk_head_dim", 16}})), HasSubstr("make it 20"));
  for (const char* const key :
       {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "n_routed_experts",
        "n_shared_experts", "moe_intermediate_size", "n_group", "topk_group"}) {
    EXPECT_THAT(wrong(without(config, key)), HasSubstr(std::string(key) + " is missing"));
  }
}

TEST(Latent, WhatIsNotDoneIsRefusedByName) {
  const json v3 = config_of("deepseek_v3");
  EXPECT_THAT(unserved(with(v3, {{"scoring_func", "softmax"}})),
              HasSubstr("scoring_func is \"softmax\", which is not implemented; \"sigmoid\" is"));
  EXPECT_THAT(unserved(with(v3, {{"topk_method", "greedy"}})),
              HasSubstr("topk_method is \"greedy\""));
  EXPECT_THAT(
      unserved(with(v3, {{"quantization_config", {{"quant_method", "fp8"}, {"fmt", "e4m3"}}}})),
      HasSubstr("quantised weights"));
  const json v2 = config_of("deepseek_v2");
  EXPECT_THAT(unserved(with(v2, {{"topk_method", "noaux_tc"}})),
              HasSubstr("topk_method is \"noaux_tc\""));
  EXPECT_THAT(unserved(with(v2, {{"norm_topk_prob", true}})), HasSubstr("norm_topk_prob is true"));
  EXPECT_THAT(unserved(with(v2, {{"mlp_bias", true}})), HasSubstr("mlp_bias is true"));
  EXPECT_THAT(unserved(with(v2, {{"scoring_func", "sigmoid"}})), HasSubstr("scoring_func"));
}

// Keys of the published checkpoints.
TEST(Latent, KeysThatChangeNothing) {
  const json more = {{"auto_map", {{"AutoModel", "modeling_deepseek.DeepseekV3Model"}}},
                     {"aux_loss_alpha", 0.001},
                     {"seq_aux", true},
                     {"ep_size", 8},
                     {"head_dim", 8},
                     {"qk_head_dim", 20},
                     {"pretraining_tp", 1},
                     {"mlp_bias", nullptr}};
  EXPECT_EQ(accept(with(config_of("deepseek_v3"), more)).latent.rank, 20);
  EXPECT_EQ(accept(with(config_of("deepseek_v2"), more)).latent.rank, 20);
}

std::vector<ManifestEntry> separate_manifest(const NameTable& table) {
  std::vector<ManifestEntry> manifest;
  for (const WeightEntry& entry : table.entries) {
    if (entry.form == NameForm::kGrouped) continue;
    manifest.push_back({entry.name, DType::kBFloat16, entry.shape, {}});
  }
  return manifest;
}

std::string fault_of_layout(const std::vector<ManifestEntry>& manifest, NameTable table) {
  const Status status = resolve_layout(manifest, &table);
  return status.ok() ? "accepted" : message_of(status);
}

// The layer that predicts a further token is passed over, another one behind the last is surplus.
TEST(DeepseekV3, LayersThatPredictFurtherTokensArePassedOver) {
  const NameTable table = find_family("deepseek_v3")->names(accept(config_of("deepseek_v3")));
  auto manifest = separate_manifest(table);
  manifest.push_back({"model.layers.3.eh_proj.weight", DType::kBFloat16, {40, 80}, {}});
  EXPECT_EQ(fault_of_layout(manifest, table), "accepted");
  EXPECT_TRUE(table.ignores("model.layers.3.mlp.gate.weight"));
  EXPECT_FALSE(table.ignores("model.layers.30.mlp.gate.weight"));
  const json config = without(config_of("deepseek_v3"), "num_nextn_predict_layers");
  EXPECT_EQ(accept(config).passed_over_layers, 1);
  EXPECT_EQ(accept(with(config, {{"num_mtp_layers", 2}})).passed_over_layers, 2);
  manifest.push_back({"model.layers.4.eh_proj.weight", DType::kBFloat16, {40, 80}, {}});
  EXPECT_THAT(fault_of_layout(manifest, table),
              HasSubstr("\"model.layers.4.eh_proj.weight\" [40, 80] is surplus"));
}

TEST(DeepseekV3, TensorsOfExpertsAreNamedWithTheKeyOfTheirCount) {
  const NameTable table = find_family("deepseek_v3")->names(accept(config_of("deepseek_v3")));
  auto manifest = separate_manifest(table);
  std::erase_if(manifest, [](const ManifestEntry& entry) {
    return entry.name == "model.layers.2.mlp.experts.7.up_proj.weight";
  });
  EXPECT_THAT(fault_of_layout(manifest, table),
              HasSubstr("tensor \"model.layers.2.mlp.experts.7.up_proj.weight\" [20, 40] "
                        "(n_routed_experts is 16) is missing"));
  manifest = separate_manifest(table);
  std::ranges::find(manifest, "model.layers.1.mlp.gate.e_score_correction_bias",
                    &ManifestEntry::name)
      ->shape = Shape{15};
  EXPECT_THAT(fault_of_layout(manifest, table),
              HasSubstr("e_score_correction_bias\" has shape [15], expected [16] "
                        "(n_routed_experts is 16)"));
}

}  // namespace
}  // namespace rlgen::models
