#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/test_config.h"

// The configurations of families with experts.
namespace rlgen::models {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;
using ::testing::HasSubstr;

std::vector<bool> sparse_layers(const DecoderSpec& spec) {
  std::vector<bool> result;
  for (const LayerSpec& layer : spec.layer) result.push_back(layer.sparse);
  return result;
}

TEST(Qwen3Moe, ExpertsOfSomeLayers) {
  const json config = config_of("qwen3_moe");
  const DecoderSpec spec = accept(config);
  EXPECT_EQ(spec.experts.count, 8);
  EXPECT_EQ(spec.experts.top_k, 3);
  EXPECT_EQ(spec.experts.intermediate, 20);
  EXPECT_TRUE(spec.experts.normalize && spec.qk_norm && !spec.qkv_bias);
  EXPECT_EQ(sparse_layers(spec), (std::vector<bool>{true, false, true}));
  const json all = without(config, "mlp_only_layers");
  EXPECT_EQ(sparse_layers(accept(all)), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(sparse_layers(accept(without(all, "decoder_sparse_step"))),
            (std::vector<bool>{true, true, true}));
  EXPECT_EQ(sparse_layers(accept(with(all, {{"decoder_sparse_step", 2}}))),
            (std::vector<bool>{false, true, false}));
  EXPECT_EQ(sparse_layers(accept(with(config, {{"mlp_only_layers", {0, 1, 2}}}))),
            (std::vector<bool>{false, false, false}));
}

TEST(SparseLayers, FB176_TheStepAndTheListBothApply) {
  for (const char* fixture : {"qwen3_moe", "qwen2_moe"}) {
    const json config =
        with(config_of(fixture),
             {{"num_hidden_layers", 6}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}});
    EXPECT_EQ(sparse_layers(accept(config)),
              (std::vector<bool>{false, true, false, false, false, true}))
        << fixture;
  }
}

TEST(Qwen3Moe, WhatItTakesWhereKeysAreAbsent) {
  const json config = config_of("qwen3_moe");
  EXPECT_FALSE(accept(without(config, "norm_topk_prob")).experts.normalize);
  EXPECT_EQ(accept(without(config, "head_dim")).head_dim, 8);
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    EXPECT_THAT(wrong(without(config, key)), HasSubstr(std::string(key) + " is missing"));
  }
}

TEST(Qwen3Moe, AWindowThatIsSwitchedOnHoldsInEveryLayer) {
  const json config = with(config_of("qwen3_moe"), {{"sliding_window", 8}});
  EXPECT_EQ(windows(accept(config)), (std::vector<int>{0, 0, 0}));
  const json on = with(config, {{"use_sliding_window", true}, {"max_window_layers", 2}});
  EXPECT_EQ(windows(accept(on)), (std::vector<int>{8, 8, 8}));
  EXPECT_EQ(windows(accept(without(on, "sliding_window"))), (std::vector<int>{4096, 4096, 4096}));
}

TEST(Qwen3Moe, CountsOfExpertsThatCannotBeAreNamed) {
  const json config = config_of("qwen3_moe");
  EXPECT_THAT(wrong(with(config, {{"num_experts_per_tok", 9}})),
              HasSubstr("num_experts_per_tok is 9, but num_experts is 8"));
  EXPECT_THAT(wrong(with(config, {{"num_experts_per_tok", 0}})),
              HasSubstr("num_experts_per_tok is 0"));
  EXPECT_THAT(wrong(with(config, {{"num_experts", 0}})), HasSubstr("num_experts is 0"));
  EXPECT_THAT(wrong(with(config, {{"decoder_sparse_step", 0}})),
              HasSubstr("decoder_sparse_step is 0"));
  EXPECT_THAT(wrong(with(config, {{"mlp_only_layers", {0, 1.5}}})),
              HasSubstr("mlp_only_layers[1] is missing, expected the number of a layer"));
  EXPECT_THAT(wrong(with(config, {{"mlp_only_layers", {-1}}})), HasSubstr("mlp_only_layers[0]"));
}

// Transformers writes the count under either key.
TEST(Qwen3Moe, TheCountGoesByTwoNames) {
  const json config = config_of("qwen3_moe");
  const json local = with(without(config, "num_experts"), {{"num_local_experts", 8}});
  EXPECT_EQ(accept(local).experts.count, 8);
  EXPECT_EQ(accept(with(config, {{"num_local_experts", 8}})).experts.count, 8);
  EXPECT_THAT(wrong(with(config, {{"num_local_experts", 9}})),
              HasSubstr("num_local_experts is 9, but num_experts is 8"));
  EXPECT_THAT(wrong(with(local, {{"num_experts_per_tok", 9}})),
              HasSubstr("but num_local_experts is 8"));
}

TEST(Qwen3Moe, ManyExperts) {
  for (const int count : {128, 129, 32768, 32769}) {
    const json config = with(config_of("qwen3_moe"), {{"num_experts", count}});
    EXPECT_EQ(accept(config).experts.count, count);
  }
}

TEST(Qwen2Moe, ASharedExpertAndBiases) {
  const json config = config_of("qwen2_moe");
  const DecoderSpec spec = accept(config);
  EXPECT_EQ(spec.experts.count, 10);
  EXPECT_EQ(spec.experts.intermediate, 24);
  EXPECT_EQ(spec.experts.shared_intermediate, 44);
  EXPECT_EQ(spec.intermediate, 72);
  EXPECT_TRUE(spec.qkv_bias && !spec.output_bias && !spec.qk_norm && !spec.experts.normalize);
  EXPECT_EQ(sparse_layers(spec), (std::vector<bool>{true, true, false}));
  EXPECT_FALSE(accept(with(config, {{"qkv_bias", false}})).qkv_bias);
  EXPECT_TRUE(accept(with(config, {{"norm_topk_prob", true}})).experts.normalize);
  EXPECT_THAT(wrong(without(config, "shared_expert_intermediate_size")),
              HasSubstr("shared_expert_intermediate_size is missing"));
  EXPECT_THAT(unserved(with(config, {{"attention_bias", true}})),
              HasSubstr("attention_bias is true: not a key of the qwen2_moe family"));
}

TEST(Qwen2Moe, AWindowHoldsInEveryOtherLayerUpToABorder) {
  const json off = with(config_of("qwen2_moe"), {{"num_hidden_layers", 5}});
  EXPECT_EQ(windows(accept(off)), (std::vector<int>{0, 0, 0, 0, 0}));
  const json on = with(off, {{"use_sliding_window", true}, {"max_window_layers", 3}});
  EXPECT_EQ(windows(accept(on)), (std::vector<int>{8, 0, 8, 0, 0}));
  EXPECT_EQ(windows(accept(without(on, "max_window_layers"))), (std::vector<int>{8, 0, 8, 0, 8}));
  EXPECT_EQ(windows(accept(with(off, {{"sliding_window", 0}}))), (std::vector<int>{0, 0, 0, 0, 0}));
  const json listed = with(on, {{"layer_types",
                                 {"full_attention", "sliding_attention", "full_attention",
                                  "full_attention", "full_attention"}}});
  EXPECT_EQ(windows(accept(listed)), (std::vector<int>{0, 8, 0, 0, 0}));
}

TEST(Mixtral, ExpertsInEveryLayerWithWeightsThatSumToOne) {
  const json config = config_of("mixtral");
  const DecoderSpec spec = accept(config);
  EXPECT_EQ(spec.experts.count, 8);
  EXPECT_EQ(spec.experts.top_k, 2);
  EXPECT_EQ(spec.experts.intermediate, 40);
  EXPECT_TRUE(spec.experts.normalize && !spec.qk_norm && !spec.qkv_bias);
  EXPECT_EQ(sparse_layers(spec), (std::vector<bool>{true, true}));
  EXPECT_THAT(wrong(with(config, {{"num_experts_per_tok", 9}})),
              HasSubstr("num_experts_per_tok is 9, but num_local_experts is 8"));
  EXPECT_THAT(unserved(with(config, {{"norm_topk_prob", true}})),
              HasSubstr("norm_topk_prob is true: not a key of the mixtral family"));
}

TEST(Mixtral, DefaultsOfTheFamily) {
  const json config = config_of("mixtral");
  EXPECT_EQ(windows(accept(config)), (std::vector<int>{0, 0}));
  EXPECT_EQ(windows(accept(without(config, "sliding_window"))), (std::vector<int>{0, 0}));
  EXPECT_EQ(windows(accept(config_of("mixtral_window"))), (std::vector<int>{20, 20}));
  EXPECT_EQ(accept(without(config, "rms_norm_eps")).norm_eps, 1e-5f);
  EXPECT_EQ(accept(without(config, "rope_theta")).rotary.inv_freq, accept(config).rotary.inv_freq);
}

TEST(Mixtral, KeysOfTrainingChangeNothing) {
  accept(with(config_of("mixtral"), {{"router_jitter_noise", 0.1},
                                     {"router_aux_loss_coef", 0.5},
                                     {"output_router_logits", true}}));
}

TEST(Olmoe, NormsOfWholeRowsAndExpertsInEveryLayer) {
  const json config = config_of("olmoe");
  const DecoderSpec spec = accept(config);
  EXPECT_EQ(spec.experts.count, 16);
  EXPECT_EQ(spec.experts.top_k, 4);
  EXPECT_EQ(spec.experts.intermediate, 24);
  EXPECT_TRUE(spec.qk_norm && spec.qk_norm_rows && !spec.qkv_bias && !spec.experts.normalize);
  EXPECT_EQ(spec.clip_qkv, 0.0f);
  EXPECT_EQ(sparse_layers(spec), (std::vector<bool>{true, true}));
  const DecoderSpec clipped = accept(config_of("olmoe_clip"));
  EXPECT_EQ(clipped.clip_qkv, 0.9f);
  EXPECT_TRUE(clipped.qkv_bias && clipped.output_bias && clipped.experts.normalize);
  const NameTable table = find_family("olmoe")->names(clipped);
  EXPECT_EQ(table.find("model.layers.0.self_attn.q_norm.weight")->shape, Shape{48});
  EXPECT_EQ(table.find("model.layers.0.self_attn.k_norm.weight")->shape, Shape{24});
}

TEST(Olmoe, DefaultsAndRefusals) {
  const json config = config_of("olmoe");
  EXPECT_EQ(accept(without(config, "rms_norm_eps")).norm_eps, 1e-5f);
  EXPECT_EQ(accept(without(config, "num_key_value_heads")).kv_heads, 4);
  EXPECT_FALSE(accept(without(config, "norm_topk_prob")).experts.normalize);
  EXPECT_EQ(accept(with(config, {{"head_dim", 12}})).head_dim, 12);
  EXPECT_THAT(wrong(with(config, {{"head_dim", 16}})),
              HasSubstr("head_dim is 16, but the norms of this family need heads of"));
  EXPECT_THAT(wrong(with(config, {{"clip_qkv", 0.0}})), HasSubstr("clip_qkv is 0.0"));
  EXPECT_THAT(wrong(with(config, {{"clip_qkv", -8.0}})), HasSubstr("clip_qkv is -8.0"));
  EXPECT_THAT(unserved(with(config, {{"sliding_window", 64}})),
              HasSubstr("sliding window attention"));
}

}  // namespace
}  // namespace rlgen::models
