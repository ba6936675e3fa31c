#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/test_config.h"

namespace rlgen::models {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<bool> rotary_layers(const DecoderSpec& spec) {
  std::vector<bool> result;
  for (const LayerSpec& layer : spec.layer) result.push_back(layer.rotary);
  return result;
}

TEST(Registry, EveryFamilyHasNamesOfItsOwn) {
  for (const Family& family : families()) {
    EXPECT_EQ(find_family(family.model_type), &family);
    EXPECT_NE(family.read, nullptr);
    EXPECT_NE(family.names, nullptr);
  }
  EXPECT_EQ(find_family("gpt2"), nullptr);
}

TEST(Registry, ListsTheFamiliesForAnUnknownOne) {
  EXPECT_THAT(unserved(with(config_of("llama"), {{"model_type", "gpt2"}})),
              AllOf(HasSubstr("model_type is \"gpt2\""), HasSubstr("llama, mistral, mixtral")));
  EXPECT_THAT(wrong(without(config_of("llama"), "model_type")), HasSubstr("model_type is missing"));
  EXPECT_THAT(wrong(json::array()), HasSubstr("expected an object"));
  EXPECT_THAT(
      unserved(with(config_of("llama"), {{"architectures", {"LlamaForSequenceClassification"}}})),
      AllOf(HasSubstr("LlamaForSequenceClassification"), HasSubstr("LlamaForCausalLM is served")));
}

TEST(Llama, ReadsSizes) {
  const DecoderSpec spec = accept(config_of("llama"));
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.vocab_rows, 160);
  EXPECT_EQ(spec.hidden, 48);
  EXPECT_EQ(spec.layers, 2);
  EXPECT_EQ(spec.heads, 4);
  EXPECT_EQ(spec.kv_heads, 2);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.intermediate, 72);
  EXPECT_EQ(spec.max_position, 128);
  EXPECT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_EQ(spec.attention_scale, 0.25f);
  EXPECT_FALSE(spec.tied_head || spec.qkv_bias || spec.output_bias || spec.mlp_bias ||
               spec.qk_norm);
  EXPECT_EQ(windows(spec), (std::vector<int>{0, 0}));
  EXPECT_EQ(spec.rotary.inv_freq.size(), 8u);
}

TEST(Llama, FillsInWhatOldFilesLeaveOut) {
  json config = without(without(config_of("llama"), "head_dim"), "num_key_value_heads");
  const DecoderSpec spec = accept(config);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 12);
  EXPECT_EQ(accept(with(config, {{"head_dim", nullptr}})).head_dim, 12);
}

TEST(Llama, FB164_BiasFlagsGiveAllSevenBiases) {
  const json both = with(config_of("llama"), {{"attention_bias", true}, {"mlp_bias", true}});
  const DecoderSpec spec = accept(both);
  const NameTable table = find_family("llama")->names(spec);
  int biases = 0;
  for (const WeightEntry& entry : table.entries) biases += entry.name.ends_with(".bias");
  EXPECT_EQ(biases, 7 * spec.layers);
  EXPECT_NE(table.find("model.layers.1.mlp.up_proj.bias"), nullptr);
  const DecoderSpec attention = accept(with(config_of("llama"), {{"attention_bias", true}}));
  EXPECT_TRUE(attention.qkv_bias && attention.output_bias && !attention.mlp_bias);
}

TEST(Mistral, WindowHoldsForAllLayersOrNone) {
  EXPECT_EQ(windows(accept(config_of("mistral"))), (std::vector<int>{20, 20}));
  const json off = with(config_of("mistral"), {{"sliding_window", nullptr}});
  EXPECT_EQ(windows(accept(off)), (std::vector<int>{0, 0}));
  EXPECT_EQ(windows(accept(without(off, "sliding_window"))), (std::vector<int>{4096, 4096}));
  EXPECT_THAT(wrong(with(off, {{"sliding_window", 0}})), HasSubstr("sliding_window is 0"));
  EXPECT_THAT(wrong(without(off, "num_key_value_heads")),
              HasSubstr("num_key_value_heads is missing"));
}

TEST(Qwen2, FB163_BiasesAreOnWithoutAKey) {
  const json config = config_of("qwen2");
  ASSERT_FALSE(config.contains("attention_bias"));
  const DecoderSpec spec = accept(config);
  EXPECT_TRUE(spec.qkv_bias && !spec.output_bias && !spec.mlp_bias);
  EXPECT_FALSE(accept(with(config, {{"attention_bias", false}})).qkv_bias);
}

TEST(Qwen2, FB165_WindowOnlyWhereSwitchedOn) {
  const json config = with(config_of("qwen2"), {{"sliding_window", 8}, {"max_window_layers", 1}});
  EXPECT_EQ(windows(accept(with(config, {{"use_sliding_window", false}}))),
            (std::vector<int>{0, 0}));
  EXPECT_EQ(windows(accept(without(config, "use_sliding_window"))), (std::vector<int>{0, 0}));
  const json on = with(config, {{"use_sliding_window", true}});
  EXPECT_EQ(windows(accept(on)), (std::vector<int>{0, 8}));
  EXPECT_EQ(windows(accept(with(on, {{"sliding_window", nullptr}}))), (std::vector<int>{0, 0}));
  EXPECT_EQ(windows(accept(without(on, "sliding_window"))), (std::vector<int>{0, 4096}));
  const json listed = with(on, {{"layer_types", {"sliding_attention", "full_attention"}}});
  EXPECT_EQ(windows(accept(listed)), (std::vector<int>{8, 0}));
  EXPECT_THAT(wrong(with(listed, {{"use_sliding_window", false}})),
              HasSubstr("layer_types[0] is missing, a layer slides"));
  EXPECT_THAT(wrong(with(listed, {{"layer_types", {"full_attention"}}})),
              HasSubstr("expected one kind for each of 2 layers"));
  EXPECT_THAT(unserved(with(listed, {{"layer_types", {"full_attention", "chunked_attention"}}})),
              HasSubstr("layer_types[1] is \"chunked_attention\""));
}

TEST(Qwen3, NormsQueriesAndKeysAndHasItsOwnHeadSize) {
  const json config = config_of("qwen3");
  const DecoderSpec spec = accept(config);
  EXPECT_TRUE(spec.qk_norm && !spec.qkv_bias);
  EXPECT_EQ(spec.head_dim, 24);
  EXPECT_EQ(accept(without(config, "head_dim")).head_dim, 128);
  EXPECT_TRUE(accept(with(config, {{"attention_bias", true}})).output_bias);
  const json windowed = with(config, {{"use_sliding_window", true}, {"max_window_layers", 0}});
  EXPECT_EQ(windows(accept(without(windowed, "sliding_window")))[0], 4096);
}

TEST(Smollm3, LayersWithoutRotaryEmbedding) {
  const json config = config_of("smollm3");
  const std::vector<bool> alternating = {true, false, true, false};
  EXPECT_EQ(rotary_layers(accept(config)), alternating);
  EXPECT_EQ(rotary_layers(accept(without(config, "no_rope_layers"))), alternating);
  const json by_default = without(without(config, "no_rope_layers"), "no_rope_layer_interval");
  EXPECT_EQ(rotary_layers(accept(by_default)), (std::vector<bool>{true, true, true, false}));
  EXPECT_THAT(wrong(with(config, {{"no_rope_layers", {1, 0}}})), HasSubstr("at least 4 flags"));
  EXPECT_THAT(wrong(with(config, {{"no_rope_layers", {1, 0, 0.5, 1}}})),
              HasSubstr("expected 0 or 1"));
  EXPECT_THAT(wrong(with(config, {{"no_rope_layer_interval", 0}})), HasSubstr("interval is 0"));
  const json sliding = with(config, {{"use_sliding_window", true}, {"sliding_window", 8}});
  EXPECT_EQ(windows(accept(sliding)), (std::vector<int>{0, 8, 0, 8}));
}

TEST(Smollm3, DefaultsOfTheFamily) {
  const json config = without(without(config_of("smollm3"), "rope_theta"), "tie_word_embeddings");
  const DecoderSpec spec = accept(config);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.rotary.inv_freq, accept(config_of("smollm3")).rotary.inv_freq);
}

TEST(Config, WrongValuesAreNamed) {
  const json config = config_of("llama");
  const struct {
    json changes;
    const char* message;
  } cases[] = {
      {{{"hidden_size", -48}}, "hidden_size is -48, expected an integer from 1 to 1048576"},
      {{{"hidden_size", 48.0}}, "hidden_size is 48.0"},
      {{{"hidden_size", "48"}}, "hidden_size is \"48\""},
      {{{"hidden_size", nullptr}}, "hidden_size is missing"},
      {{{"vocab_size", 18446744073709551615u}}, "vocab_size is 18446744073709551615"},
      {{{"num_hidden_layers", 0}}, "num_hidden_layers is 0"},
      {{{"num_hidden_layers", 2000000000}}, "num_hidden_layers is 2000000000"},
      {{{"num_attention_heads", 0}}, "num_attention_heads is 0"},
      {{{"num_key_value_heads", 0}}, "num_key_value_heads is 0"},
      {{{"num_key_value_heads", 3}}, "which does not divide num_attention_heads, 4"},
      {{{"num_attention_heads", 5}, {"num_key_value_heads", 5}, {"head_dim", nullptr}},
       "which does not divide hidden_size, 48"},
      {{{"head_dim", 0}}, "head_dim is 0"},
      {{{"rms_norm_eps", "x"}}, "rms_norm_eps is \"x\""},
      {{{"rms_norm_eps", 0.0}}, "rms_norm_eps is 0.0"},
      {{{"rms_norm_eps", NAN}}, "rms_norm_eps is null"},
      {{{"max_position_embeddings", 0}}, "max_position_embeddings is 0"},
      {{{"tie_word_embeddings", 1}}, "tie_word_embeddings is 1, expected true or false"},
      {{{"architectures", {1}}}, "architectures[0] is 1, expected a string"},
      {{{"model_type", 5}}, "model_type is 5"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(wrong(with(config, test.changes)), HasSubstr(test.message));
  }
}

TEST(Config, KeysThatChangeArithmeticAreNamed) {
  const json config = config_of("llama");
  const struct {
    json changes;
    const char* message;
  } cases[] = {
      {{{"quantization_config", {{"bits", 4}}}}, "quantization_config is {\"bits\":4}: quantised"},
      {{{"final_logit_softcapping", 30.0}}, "final_logit_softcapping is 30.0: a cap on the logits"},
      {{{"rope_interleaved", true}}, "rope_interleaved is true"},
      {{{"sliding_window", 4096}},
       "sliding_window is 4096: sliding window attention, which is not "
       "implemented for the llama family"},
      {{{"num_local_experts", 8}}, "mixture of experts"},
      {{{"auto_map", {{"AutoModel", "x"}}}}, "model code that travels with the checkpoint"},
      {{{"hidden_act", "relu2"}}, "hidden_act is \"relu2\""},
      {{{"something_new", 1}}, "something_new is 1: not a key of the llama family"},
      {{{"rms_norm_epz", 1}}, "did you mean \"rms_norm_eps\"?"},
      {{{"rope_scaling.factor", 1}}, "rope_scaling.factor is 1: not a key"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(unserved(with(config, test.changes)), HasSubstr(test.message));
  }
}

TEST(Config, HarmlessKeysAreAccepted) {
  const json changes = {{"_name_or_path", "x"},
                        {"transformers_version", "5.0"},
                        {"initializer_range", 0.02},
                        {"use_cache", false},
                        {"dtype", "bfloat16"},
                        {"pad_token_id", nullptr},
                        {"rope_interleaved", false},
                        {"quantization_config", nullptr},
                        {"transformers.js_config", {{"x", 1}}},
                        {"temperature", 0.5},
                        {"pruned_heads", json::object()}};
  accept(with(config_of("llama"), changes));
}

TEST(Config, ContextInForce) {
  const json config = config_of("llama");
  EXPECT_EQ(resolve_config(config, "config.json", 0)->max_model_len, 128);
  EXPECT_EQ(resolve_config(config, "config.json", 77)->max_model_len, 77);
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(resolve_config(config, "config.json", 2)->max_model_len, 2);
  for (const int64_t wrong_len : {int64_t{129}, int64_t{1}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_THAT(refuse(config, code, wrong_len),
                HasSubstr("max_model_len is " + std::to_string(wrong_len) +
                          ", but config.json allows 2 to 128"));
  }
  const json linear = config_of("llama_rope_linear");
  EXPECT_TRUE(resolve_config(linear, "config.json", 256).ok());
  EXPECT_FALSE(resolve_config(linear, "config.json", 257).ok());
  EXPECT_TRUE(resolve_config(config_of("llama_rope_dynamic"), "config.json", 1 << 20).ok());
}

TEST(Config, GeluActivation) {
  const json config = with(config_of("llama"), {{"hidden_act", "gelu_pytorch_tanh"}});
  EXPECT_EQ(accept(config).gating.activation, kernels::Activation::kGeluTanh);
}

}  // namespace
}  // namespace rlgen::models
