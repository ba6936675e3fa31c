#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/families/family.h"
#include "models/model_digest.h"
#include "models/test_config.h"

// gpt-oss: its configuration, its tensors and the checkpoints in 4 bits.
namespace rlgen::models {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GptOss, SinksBiasesAndABoundedGate) {
  const DecoderSpec spec = accept(config_of("gpt_oss"));
  EXPECT_EQ(spec.experts.count, 6);
  EXPECT_EQ(spec.experts.top_k, 3);
  EXPECT_EQ(spec.experts.intermediate, 20);
  EXPECT_TRUE(spec.experts.normalize && spec.experts.router_bias && spec.experts.bias);
  EXPECT_TRUE(spec.sinks && spec.qkv_bias && spec.output_bias && !spec.qk_norm);
  EXPECT_EQ(spec.gating.activation, kernels::Activation::kClampedSwiglu);
  EXPECT_EQ(spec.gating.limit, 1.25f);
  EXPECT_EQ(spec.gating.alpha, 1.702f);
  EXPECT_EQ(spec.head_dim, 12);
  EXPECT_EQ(windows(spec), (std::vector<int>{8, 0, 8}));
  EXPECT_EQ(spec.rotary.name, "yarn");
}

TEST(GptOss, WhatItTakesWhereKeysAreAbsent) {
  const json config = config_of("gpt_oss_plain");
  const DecoderSpec spec = accept(config);
  EXPECT_FALSE(spec.qkv_bias || spec.output_bias);
  EXPECT_EQ(spec.gating.limit, 7.0f);
  EXPECT_EQ(windows(spec), (std::vector<int>{20, 0}));
  EXPECT_TRUE(accept(without(config, "attention_bias")).qkv_bias);
  EXPECT_EQ(windows(accept(without(config, "sliding_window"))), (std::vector<int>{128, 0}));
  EXPECT_EQ(accept(without(config, "rms_norm_eps")).norm_eps, 1e-5f);
  EXPECT_EQ(accept(without(config, "head_dim")).head_dim, 64);
  EXPECT_EQ(accept(with(config, {{"head_dim", nullptr}})).head_dim, 10);
  // The scaling of the published checkpoints: 32 times 4,096.
  EXPECT_EQ(spec.rotary.name, "yarn");
  EXPECT_NEAR(spec.rotary.attention_factor, 0.1 * std::log(32.0) + 1.0, 1e-6);
  const json named = with(config, {{"rope_scaling",
                                    {{"rope_type", "yarn"},
                                     {"factor", 32.0},
                                     {"original_max_position_embeddings", 4096},
                                     {"truncate", false}}}});
  EXPECT_EQ(accept(named).rotary.inv_freq, spec.rotary.inv_freq);
  EXPECT_EQ(accept(without(config, "rope_theta")).rotary.inv_freq, spec.rotary.inv_freq);
}

TEST(GptOss, ValuesThatCannotBeAreNamed) {
  const json config = config_of("gpt_oss");
  EXPECT_THAT(wrong(with(config, {{"num_experts_per_tok", 7}})),
              HasSubstr("num_experts_per_tok is 7, but num_local_experts is 6"));
  EXPECT_THAT(wrong(with(config, {{"experts_per_token", 2}})),
              HasSubstr("experts_per_token is 2, but num_experts_per_tok is 3"));
  EXPECT_THAT(
      wrong(with(config, {{"initial_context_length", 64}})),
      HasSubstr("initial_context_length is 64, but original_max_position_embeddings is 32"));
  EXPECT_THAT(wrong(with(config, {{"hidden_act", "gelu_pytorch_tanh"}})),
              HasSubstr("hidden_act is \"gelu_pytorch_tanh\", but the experts of this family"));
  EXPECT_THAT(wrong(with(config, {{"swiglu_limit", 0.0}})), HasSubstr("swiglu_limit is 0.0"));
  EXPECT_THAT(wrong(with(config, {{"swiglu_alpha", -1.0}})), HasSubstr("swiglu_alpha is -1.0"));
  EXPECT_THAT(wrong(with(config, {{"sliding_window", nullptr}})),
              HasSubstr("a layer slides, but sliding_window is off"));
  EXPECT_THAT(wrong(with(config_of("gpt_oss_plain"), {{"sliding_window", nullptr}})),
              HasSubstr("sliding_window is missing, but every other layer slides"));
  EXPECT_THAT(unserved(with(config, {{"norm_topk_prob", true}})),
              HasSubstr("norm_topk_prob is true: not a key of the gpt_oss family"));
}

TEST(GptOss, CheckpointsInFourBitsAreRefusedWithWhatToDo) {
  const json quantized = with(
      config_of("gpt_oss"),
      {{"quantization_config",
        {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.layers.*.self_attn"}}}}});
  EXPECT_THAT(unserved(quantized),
              AllOf(HasSubstr("quantization_config.quant_method is \"mxfp4\""),
                    HasSubstr("Mxfp4Config(dequantize=True)"), HasSubstr("docs/weights.md")));
  EXPECT_THAT(unserved(with(quantized, {{"quantization_config", {{"quant_method", "fp8"}}}})),
              HasSubstr("\"fp8\": quantised weights are not served"));
}

NameTable table_of(const json& config) { return gpt_oss_names(accept(config)); }

std::vector<ManifestEntry> whole_manifest(const NameTable& table) {
  std::vector<ManifestEntry> manifest;
  for (const WeightEntry& entry : table.entries) {
    if (!entry.optional) manifest.push_back({entry.name, DType::kBFloat16, entry.shape, {}});
  }
  return manifest;
}

std::string layout_of(const std::vector<ManifestEntry>& manifest, NameTable table) {
  const Status status = resolve_layout(manifest, &table);
  return status.ok() ? "accepted" : message_of(status);
}

TEST(GptOss, TensorsAsTheCheckpointsHaveThem) {
  const NameTable table = table_of(config_of("gpt_oss"));
  EXPECT_EQ(layout_of(whole_manifest(table), table), "accepted");
  const WeightEntry* up = table.find("model.layers.1.mlp.experts.gate_up_proj");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->shape, (Shape{6, 40, 40}));
  EXPECT_TRUE(up->transposed && up->interleaved);
  const WeightSlot& slot = table.slots[size_t(up->slot)];
  EXPECT_EQ(slot.count, 6);
  EXPECT_EQ(slot.n, 40);
  EXPECT_EQ(slot.k, 40);
  const WeightEntry* down = table.find("model.layers.1.mlp.experts.down_proj");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->shape, (Shape{6, 20, 40}));
  EXPECT_TRUE(down->transposed && !down->interleaved);
  EXPECT_EQ(table.slots[size_t(down->slot)].n, 40);
  EXPECT_EQ(table.slots[size_t(down->slot)].k, 20);
  EXPECT_EQ(table.find("model.layers.1.mlp.experts.gate_up_proj_bias")->shape, (Shape{6, 40}));
  EXPECT_EQ(table.find("model.layers.0.self_attn.sinks")->shape, Shape{4});
  EXPECT_EQ(table.find("model.layers.0.mlp.gate.weight"), nullptr);
}

TEST(GptOss, WhatIsMissingOrOfAnotherSizeIsNamed) {
  const NameTable table = table_of(config_of("gpt_oss"));
  auto manifest = whole_manifest(table);
  const auto named = [&](std::string_view name) {
    return std::ranges::find(manifest, name, &ManifestEntry::name);
  };
  named("model.layers.2.mlp.router.bias")->shape = Shape{5};
  EXPECT_THAT(layout_of(manifest, table),
              HasSubstr("tensor \"model.layers.2.mlp.router.bias\" has shape [5], expected [6] "
                        "(num_local_experts is 6)"));
  manifest.erase(named("model.layers.2.mlp.router.bias"));
  manifest.erase(named("model.layers.1.mlp.experts.down_proj"));
  EXPECT_THAT(layout_of(manifest, table),
              AllOf(HasSubstr("\"model.layers.1.mlp.experts.down_proj\" [6, 20, 40] "
                              "(num_local_experts is 6) is missing"),
                    HasSubstr("\"model.layers.2.mlp.router.bias\" [6]")));
  manifest.push_back(
      {"model.layers.1.mlp.experts.down_proj_blocks", DType::kUInt8, {6, 40, 1, 16}, {}});
  EXPECT_THAT(
      layout_of(manifest, table),
      HasSubstr("down_proj_blocks\" [6, 40, 1, 16] is surplus: it holds weights in 4 bits"));
}

TEST(GptOss, EveryFieldIsInTheDigest) {
  const json config = config_of("gpt_oss");
  const NameTable table = table_of(config);
  const DecoderSpec spec = accept(config);
  const std::string digest = model_digest(spec, table, std::nullopt);
  const auto changed = [&](auto change) {
    DecoderSpec other = spec;
    change(other);
    return model_digest(other, table, std::nullopt) != digest;
  };
  EXPECT_FALSE(changed([](DecoderSpec&) {}));
  EXPECT_TRUE(changed([](DecoderSpec& s) { s.sinks = false; }));
  EXPECT_TRUE(changed([](DecoderSpec& s) { s.gating.alpha = 1.0f; }));
  EXPECT_TRUE(changed([](DecoderSpec& s) { s.gating.limit = 7.0f; }));
  EXPECT_TRUE(changed([](DecoderSpec& s) { s.experts.bias = false; }));
  EXPECT_TRUE(changed([](DecoderSpec& s) { s.experts.router_bias = false; }));
}

}  // namespace
}  // namespace rlgen::models
