#include "contract/config/generation_config.h"

#include <gmock/gmock.h>

#include <cfenv>
#include <nlohmann/json.hpp>

#include "contract/config/checkpoint_engine_config.h"
#include "contract/error_type.h"
#include "contract/spec_error.h"

namespace rlgen {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

json good_config() {
  return {{"backend", "rlgen"},
          {"max_new_tokens", 32},
          {"temperature", 0.7},
          {"top_p", 0.9},
          {"top_k", 20},
          {"val_temperature", 0.0},
          {"val_top_p", 1.0},
          {"val_top_k", nullptr},
          {"model_name", "folder"},
          {"stop_token_ids", nullptr},
          {"stop_strings", nullptr}};
}

json config_with(const std::string& key, const json& value) {
  json config = good_config();
  config[json::json_pointer(key)] = value;
  return config;
}

Status error_with(const std::string& key, const json& value) {
  return read_generation_config(config_with(key, value)).status();
}

TEST(GenerationConfig, EveryKeyHasItsPlace) {
  json file = good_config();
  file.update(json{
      {"stop_token_ids", {4, 5}},
      {"stop_strings", {"END"}},
      {"bad_words", {"no"}},
      {"ignore_eos", true},
      {"colocated", {{"enabled", true}, {"resources", {{"gpus_per_node", 2}, {"num_nodes", 3}}}}},
      {"port_range_low", 3000},
      {"port_range_high", 4999},
      {"use_async_rollouts", true},
      {"_pad_token_id", 9},
      {"_draft_weights_from_refit", false},
      {"_mtp_weights_from_refit", false},
      {"_draft_full_refit", false},
      {"_debug_payload_metrics", false},
      {"disaggregation", {{"num_decode_engines", 2}}},
      {"refit_transport", nullptr},
      {"rlgen_cfg", {{"num_threads", 2}}}});
  const auto config = read_generation_config(file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_new_tokens, 32);
  EXPECT_EQ(config->train, (GenerationSamplingParams{0.7, 0.9, 20}));
  EXPECT_EQ(config->validation, (GenerationSamplingParams{0.0, 1.0, std::nullopt}));
  EXPECT_EQ(config->model_name, "folder");
  EXPECT_EQ(config->stop_token_ids, (std::vector<int32_t>{4, 5}));
  EXPECT_THAT(config->stop_strings, ElementsAre("END"));
  EXPECT_THAT(config->bad_words, ElementsAre("no"));
  EXPECT_TRUE(config->ignore_eos);
  EXPECT_TRUE(config->colocated.enabled);
  EXPECT_EQ(config->dp_size(), 6);
  EXPECT_EQ(config->port_range_low, 3000);
  EXPECT_EQ(config->port_range_high, 4999);
  EXPECT_EQ(config->pad_token_id, 9);
  EXPECT_EQ(config->disaggregation.num_decode_engines, 2);
  EXPECT_EQ(config->rlgen_cfg.shard.num_threads, 2);
  EXPECT_EQ(config->rlgen_cfg.shard.model, "folder");
  EXPECT_THAT(config->not_read, IsEmpty());
}

TEST(GenerationConfig, WhatIsLackingIsRefusedByItsDottedName) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"/disaggregation/enabled", true},
                                                 {"/_draft_weights_from_refit", true},
                                                 {"/_mtp_weights_from_refit", true},
                                                 {"/_draft_full_refit", true},
                                                 {"/_debug_payload_metrics", true},
                                                 {"/use_async_rollouts", false},
                                                 {"/refit_transport", "nixl"}}) {
    const Status error = error_with(key, value);
    EXPECT_EQ(error_kind(error), ErrorKind::kNotImplementedError) << key << error;
    std::string dotted = "policy.generation" + key;
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    EXPECT_THAT(message_of(error), HasSubstr(dotted));
  }
}

TEST(GenerationConfig, OutOfRangeIsNamed) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"/backend", "vllm"},
                                                 {"/max_new_tokens", 0},
                                                 {"/temperature", -1.0},
                                                 {"/temperature", 1e-60},
                                                 {"/temperature", 1e300},
                                                 {"/top_p", 0.0},
                                                 {"/top_p", 1e-60},
                                                 {"/top_p", 1.5},
                                                 {"/top_k", 0},
                                                 {"/top_k", -2},
                                                 {"/val_top_k", 0},
                                                 {"/val_top_p", 2},
                                                 {"/val_temperature", -0.5},
                                                 {"/stop_token_ids", {-1}},
                                                 {"/stop_strings", {""}},
                                                 {"/bad_words", {""}},
                                                 {"/_pad_token_id", -1},
                                                 {"/port_range_low", 3000},
                                                 {"/colocated", {{"enabled", true}}},
                                                 {"/rlgen_cfg/stall_timeout_s", 0},
                                                 {"/rlgen_cfg/logprobs_mode", "best"},
                                                 {"/disaggregation/num_prefill_engines", 0},
                                                 {"/checkpoint_engine", json::object()},
                                                 {"/ignore_eos", nullptr}}) {
    const Status error = error_with(key, value);
    ASSERT_FALSE(error.ok()) << key << value;
    std::string dotted = "policy.generation" + key;
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    EXPECT_THAT(message_of(error), HasSubstr(dotted));
  }
  json ports = good_config();
  ports.update(json{{"port_range_low", 5000}, {"port_range_high", 4000}});
  EXPECT_THAT(message_of(read_generation_config(ports).status()), HasSubstr("port_range_low"));
}

TEST(GenerationConfig, UnknownKeysAreErrorsWithASuggestion) {
  EXPECT_THAT(message_of(error_with("/temprature", 1)),
              AllOf(HasSubstr("policy.generation.temprature"), HasSubstr("\"temperature\"")));
  EXPECT_THAT(
      message_of(error_with("/rlgen_cfg/num_thread", 1)),
      AllOf(HasSubstr("policy.generation.rlgen_cfg.num_thread"), HasSubstr("\"num_threads\"")));
}

TEST(GenerationConfig, MissingKeysAreListedTogether) {
  json file = good_config();
  file.erase("model_name");
  file.erase("val_top_k");
  const Status error = read_generation_config(file).status();
  EXPECT_EQ(error_kind(error), ErrorKind::kAssertionError);
  EXPECT_THAT(message_of(error), AllOf(HasSubstr("val_top_k, model_name"), HasSubstr("it has")));
}

TEST(GenerationConfig, SectionsOfOthersAreNotReadAndSaidOnce) {
  json file = good_config();
  file.update(json{{"vllm_cfg", {{"async_engine", 7}}}, {"sglang_cfg", nullptr}});
  auto config = read_generation_config(file);
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<std::string> lines;
  const LogSink log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  finalize_generation_config({.pad_token_id = 2, .eos_token_ids = {3}}, log, &*config);
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("vllm_cfg"), HasSubstr("sglang_cfg"))));
}

TEST(GenerationConfig, FinalisingTakesTheTokenizersWord) {
  auto config = *read_generation_config(config_with("/_pad_token_id", 9));
  std::vector<std::string> lines;
  const LogSink log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  finalize_generation_config({.pad_token_id = 2, .eos_token_ids = {3, 4}}, log, &config);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_EQ(config.stop_token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("no effect")));

  auto own = *read_generation_config(config_with("/stop_token_ids", {7}));
  finalize_generation_config({.pad_token_id = {}, .eos_token_ids = {3}}, log, &own);
  EXPECT_EQ(own.stop_token_ids, std::vector<int32_t>{7});
  EXPECT_EQ(own.pad_token_id, std::nullopt);
  EXPECT_THAT(lines, SizeIs(1));
}

TEST(GenerationConfig, T9_IgnoreEosPutsNoEosAmongTheStopIds) {
  auto config = *read_generation_config(config_with("/ignore_eos", true));
  finalize_generation_config({.pad_token_id = 2, .eos_token_ids = {3}}, {}, &config);
  EXPECT_THAT(*config.stop_token_ids, IsEmpty());
}

TEST(GenerationConfig, MaxNewTokensIsCutToTheRoom) {
  EXPECT_EQ(clamp_max_new_tokens(10, 90, 100), 10);
  EXPECT_EQ(clamp_max_new_tokens(11, 90, 100), 10);
  EXPECT_EQ(clamp_max_new_tokens(11, 100, 100), 0);
  EXPECT_EQ(clamp_max_new_tokens(11, 101, 100), 0);
}

TEST(GenerationConfig, T6_StopStringsOfASampleAreTheConfiguredAndItsOwn) {
  EXPECT_THAT(merge_stop_strings({"a", "b"}, {"c", "a"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(merge_stop_strings({"a"}, {}), ElementsAre("a"));
  EXPECT_THAT(merge_stop_strings({}, {"c", "c"}), ElementsAre("c"));
}

TEST(GenerationSamplingParams, IsTheTrainProfileOfAConfig) {
  const auto params = GenerationSamplingParams::from_generation_config(good_config());
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(*params, (GenerationSamplingParams{0.7, 0.9, 20}));
  for (const char* key : {"temperature", "top_p", "top_k"}) {
    json file = good_config();
    file.erase(key);
    const Status error = GenerationSamplingParams::from_generation_config(file).status();
    EXPECT_EQ(error_kind(error), ErrorKind::kKeyError);
    EXPECT_THAT(message_of(error), HasSubstr(key));
  }
  EXPECT_EQ(
      error_kind(
          GenerationSamplingParams::from_generation_config(config_with("/top_k", 0)).status()),
      ErrorKind::kValueError);
}

TEST(GenerationSamplingParams, GreedyDropsTheFilters) {
  SamplingParams sampling;
  apply({.temperature = 0.7, .top_p = 0.9, .top_k = 20}, false, &sampling);
  EXPECT_EQ(sampling, (SamplingParams{.temperature = 0.7f, .top_k = 20, .top_p = 0.9f}));
  apply({.temperature = 0.7, .top_p = 0.9, .top_k = 20}, true, &sampling);
  EXPECT_EQ(sampling, (SamplingParams{.temperature = 0.0f}));
  apply({.top_k = std::nullopt}, false, &sampling);
  EXPECT_EQ(sampling, SamplingParams{});
}

TEST(GenerationSamplingParams, DoNotDependOnTheCallersRounding) {
  SamplingParams sampling;
  std::fesetround(FE_DOWNWARD);
  apply({.temperature = 0.6, .top_p = 0.7, .top_k = 20}, false, &sampling);
  std::fesetround(FE_UPWARD);
  SamplingParams upward;
  apply({.temperature = 0.6, .top_p = 0.7, .top_k = 20}, false, &upward);
  std::fesetround(FE_TONEAREST);
  const SamplingParams expected{.temperature = 0.6f, .top_k = 20, .top_p = 0.7f};
  EXPECT_EQ(sampling, expected);
  EXPECT_EQ(upward, expected);
}

TEST(ColocationConfig, ShardsAreNodesTimesGpus) {
  EXPECT_EQ(shard_count({}), 1);
  EXPECT_EQ(shard_count({.gpus_per_node = 4, .num_nodes = std::nullopt}), 4);
  EXPECT_EQ(shard_count({.gpus_per_node = 4, .num_nodes = 2}), 8);
}

TEST(ColocationConfig, ErrorsNameTheDottedKey) {
  const auto with = [](const json& gpus, const json& nodes) {
    return error_with(
        "/colocated",
        {{"enabled", false}, {"resources", {{"gpus_per_node", gpus}, {"num_nodes", nodes}}}});
  };
  EXPECT_TRUE(with(nullptr, nullptr).ok());
  EXPECT_THAT(message_of(with(0, 1)),
              HasSubstr("policy.generation.colocated.resources.gpus_per_node is 0"));
  EXPECT_THAT(message_of(with(1, -1)), HasSubstr("colocated.resources.num_nodes is -1"));
  EXPECT_THAT(message_of(with(1024, 2)), HasSubstr("2048 shards"));
  ResourcesConfig resources;
  const json half{{"gpus_per_node", 2}};
  EXPECT_EQ(error_kind(read_json({"r", half}, &resources)), ErrorKind::kAssertionError);
  const json whole{{"gpus_per_node", 2}, {"num_nodes", 3}};
  ASSERT_TRUE(read_json({"r", whole}, &resources).ok());
  EXPECT_EQ(resources, (ResourcesConfig{2, 3}));
}

TEST(DisaggConfig, PortsOfFrontEndsAreApart) {
  const DisaggConfig config{.num_frontend_workers = 2};
  EXPECT_EQ(frontend_port(config, 0, 0), 17300);
  EXPECT_EQ(frontend_port(config, 0, 1), 17301);
  EXPECT_EQ(frontend_port(config, 1, 0), 17302);
  EXPECT_EQ(frontend_port(config, 1, 1), 17303);
  EXPECT_TRUE(check_frontends(config, 128).ok());
  EXPECT_THAT(message_of(check_frontends(config, 129)), HasSubstr("258"));
  const DisaggConfig high{.frontend_base_port = 65535};
  EXPECT_TRUE(check_frontends(high, 1).ok());
  EXPECT_FALSE(check_frontends(high, 2).ok());
}

TEST(DisaggConfig, ValidatesItsFields) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"num_prefill_engines", 0},
                                                 {"num_decode_engines", -1},
                                                 {"num_frontend_workers", 0},
                                                 {"frontend_base_port", 0},
                                                 {"frontend_base_port", 65536},
                                                 {"num_context_engines", 1},
                                                 {"enabled", 1}}) {
    DisaggConfig config;
    const json file{{key, value}};
    EXPECT_THAT(message_of(read_json({"d", file}, &config)), HasSubstr("d." + key)) << value;
  }
  DisaggConfig config;
  const json nothing = json::object();
  ASSERT_TRUE(read_json({"d", nothing}, &config).ok());
  EXPECT_EQ(config, DisaggConfig{});
}

TEST(CheckpointEngineConfig, ComesFromTheTransport) {
  const auto of = [](const json& generation) { return checkpoint_engine_config(generation, "g"); };
  EXPECT_EQ(*of(json::object()), std::nullopt);
  for (const char* name : {"nccl_reshard", "vllm_s3_sparse", "vllm_zmq_sparse"}) {
    EXPECT_EQ(*of({{"refit_transport", name}}), std::nullopt);
  }
  const auto nixl = *of({{"refit_transport", "nixl"}});
  ASSERT_TRUE(nixl);
  EXPECT_EQ(nixl->update_weights_bucket_memory_ratio, 0.05);
  EXPECT_EQ(nixl->engine_kwargs["nixl"]["backend_name"], "UCX");
  const auto own =
      *of({{"refit_transport", "m:C"},
           {"refit_cfg", {{"m:C", {{"update_weights_bucket_memory_ratio", 0.5}, {"x", 1}}}}}});
  ASSERT_TRUE(own);
  EXPECT_EQ(own->backend, "m:C");
  EXPECT_EQ(own->update_weights_bucket_memory_ratio, 0.5);
  EXPECT_EQ(own->engine_kwargs, (json{{"m:C", {{"x", 1}}}}));
}

TEST(CheckpointEngineConfig, ErrorsNameTheKey) {
  const auto error = [](const json& generation) {
    return message_of(checkpoint_engine_config(generation, "g").status());
  };
  EXPECT_THAT(error({{"checkpoint_engine", 1}}), HasSubstr("g.refit_transport"));
  EXPECT_THAT(error({{"refit_transport", "nixxl"}}), HasSubstr("nccl_reshard"));
  EXPECT_THAT(error({{"refit_transport", 3}}), HasSubstr("g.refit_transport is 3"));
  EXPECT_THAT(error({{"refit_transport", "m:C"}}), HasSubstr("g.refit_cfg.m:C"));
  const auto scoped = [&](const char* name, const json& scope) {
    return error({{"refit_transport", name}, {"refit_cfg", {{name, scope}}}});
  };
  EXPECT_THAT(scoped("nixl", {{"devise", "cpu"}}), HasSubstr("g.refit_cfg.nixl.devise"));
  for (const char* name : {"nixl", "m:C"}) {
    for (const json& ratio : {json(0.0), json(1.0), json("x")}) {
      EXPECT_THAT(scoped(name, {{"update_weights_bucket_memory_ratio", ratio}}),
                  HasSubstr("update_weights_bucket_memory_ratio"));
    }
  }
}

TEST(RlgenConfig, EveryKeyReachesTheShard) {
  const json file{{"num_threads", 2},
                  {"isa", "scalar"},
                  {"dtype", "bfloat16"},
                  {"activation_dtype", "bfloat16"},
                  {"kv_cache_dtype", "float32"},
                  {"kv_cache_memory_bytes", 1 << 20},
                  {"kv_cache_memory_fraction", 0.75},
                  {"block_size", 32},
                  {"max_num_seqs", 3},
                  {"max_num_batched_tokens", 64},
                  {"max_model_len", 128},
                  {"enable_prefix_caching", false},
                  {"enable_return_routed_experts", true},
                  {"routed_experts_layers", "all"},
                  {"logprobs_mode", "raw"},
                  {"stall_timeout_s", 1.5}};
  RlgenConfig config;
  ASSERT_TRUE(read_json({"c", file}, &config).ok());
  EXPECT_EQ(config.shard.num_threads, 2);
  EXPECT_EQ(config.shard.isa, "scalar");
  EXPECT_EQ(config.shard.dtype, "bfloat16");
  EXPECT_EQ(config.shard.activation_dtype, "bfloat16");
  EXPECT_EQ(config.shard.kv_cache_dtype, "float32");
  EXPECT_EQ(config.shard.kv_cache_memory_bytes, 1 << 20);
  EXPECT_EQ(config.shard.kv_cache_memory_fraction, 0.75);
  EXPECT_EQ(config.shard.block_size, 32);
  EXPECT_EQ(config.shard.max_num_seqs, 3);
  EXPECT_EQ(config.shard.max_num_batched_tokens, 64);
  EXPECT_EQ(config.shard.max_model_len, 128);
  EXPECT_FALSE(config.shard.enable_prefix_caching);
  EXPECT_TRUE(config.shard.enable_return_routed_experts);
  EXPECT_EQ(config.shard.routed_experts_layers, "all");
  EXPECT_EQ(config.logprobs_mode, LogprobsMode::kRaw);
  EXPECT_EQ(config.stall_timeout, std::chrono::milliseconds(1500));
}

TEST(RlgenConfig, ErrorsOfAShardAreSaidInTheWordsOfTheFile) {
  const Status threads = spec_error("num_threads", absl::InvalidArgumentError("num_threads is -1"));
  EXPECT_THAT(message_of(in_config_words(threads)),
              HasSubstr("policy.generation.rlgen_cfg.num_threads: num_threads is -1"));
  const Status model = spec_error("model", absl::NotFoundError("no folder"));
  EXPECT_THAT(message_of(in_config_words(model)), HasSubstr("policy.generation.model_name"));
  EXPECT_EQ(in_config_words(absl::InternalError("x")), absl::InternalError("x"));
}

}  // namespace
}  // namespace rlgen
