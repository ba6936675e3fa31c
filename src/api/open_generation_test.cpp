#include "api/open_generation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contract/error_type.h"
#include "refit/ipc_sender.h"

namespace rlgen {
namespace {

using generation::RlgenGeneration;
using nlohmann::json;
using testing::Each;
using testing::HasSubstr;
using Ids = std::vector<int64_t>;

const std::string kCheckpoints = "tests/fixtures/checkpoints/";

json toy_section(const std::string& checkpoint, const json& extra = json::object()) {
  json section{{"backend", "rlgen"},
               {"max_new_tokens", 6},
               {"temperature", 1.0},
               {"top_p", 1.0},
               {"top_k", nullptr},
               {"val_temperature", 1.0},
               {"val_top_p", 1.0},
               {"val_top_k", nullptr},
               {"model_name", kCheckpoints + checkpoint},
               {"stop_token_ids", json::array()},
               {"stop_strings", nullptr},
               {"rlgen_cfg", {{"num_threads", 1}}}};
  section.update(extra);
  return section;
}

std::unique_ptr<RlgenGeneration> open_toy(const json& section, OpenOptions options = {}) {
  auto backend = open_generation(section, std::move(options));
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// One row, seeded.
StatusOr<GenerationOutputSpec> roll_out(RlgenGeneration& backend) {
  HostTensor ids(DType::kInt64, Shape{1, 3});
  EXPECT_TRUE(write_integers(Ids{5, 6, 7}, &ids).ok());
  const HostTensor lengths = HostTensor::of(Ids{3});
  return backend.generate(
      {.input_ids = ids.view(), .input_lengths = lengths.view(), .stop_strings = {}, .seeds = {11}},
      false);
}

Ids ids_of(const StatusOr<GenerationOutputSpec>& batch) {
  EXPECT_TRUE(batch.ok()) << batch.status();
  return *read_integers(batch->output_ids.view());
}

std::vector<float> logprobs_of(const StatusOr<GenerationOutputSpec>& batch) {
  EXPECT_TRUE(batch.ok()) << batch.status();
  const float* const values = batch->logprobs.as<float>();
  return {values, values + batch->logprobs.shape().num_elements()};
}

Ids versions_of_tokens(const StatusOr<GenerationOutputSpec>& batch) {
  EXPECT_TRUE(batch.ok()) << batch.status();
  const Ids all = *read_integers(batch->weight_versions.view());
  return {all.begin() + 3, all.end()};
}

TEST(OpenGeneration, TheTokenizerOfTheCheckpointDecidesWhatTheFileLeavesOpen) {
  const auto backend =
      open_toy(toy_section("llama_text", {{"stop_token_ids", nullptr}, {"_pad_token_id", 3}}));
  EXPECT_NE(backend->config().pad_token_id, 3);
  EXPECT_EQ(backend->config().stop_token_ids, backend->generation().info().eos_token_ids);
  const auto other =
      open_toy(toy_section("llama_text"),
               {.tokenizer = TokenizerFacts{.pad_token_id = 3, .eos_token_ids = {}}, .log = {}});
  EXPECT_EQ(other->config().pad_token_id, 3);
}

TEST(OpenGeneration, BadWordsAreThoseOfTheTokenizer) {
  const auto backend = open_toy(toy_section("llama_text", {{"bad_words", {"a"}}}));
  EXPECT_TRUE(roll_out(*backend).ok());
  const auto without = open_toy(toy_section("llama", {{"bad_words", {"a"}}, {"_pad_token_id", 0}}));
  EXPECT_THAT(message_of(roll_out(*without).status()), HasSubstr("bad_words"));
}

TEST(OpenGeneration, WhatCannotBeOpenedIsNamedByItsKey) {
  for (const auto& [extra, key] : std::vector<std::pair<json, std::string>>{
           {{{"model_name", "no/such/model"}}, "policy.generation.model_name"},
           {{{"rlgen_cfg", {{"isa", "mmx"}}}}, "policy.generation.rlgen_cfg.isa"},
           {{{"top_p", 0}}, "policy.generation.top_p"}}) {
    EXPECT_THAT(message_of(open_generation(toy_section("llama", extra)).status()), HasSubstr(key));
  }
}

TEST(OpenGeneration, T15_T16_AColocatedEngineStandsDownAndComesBackWithTheSameBits) {
  const json resources{{"gpus_per_node", 2}, {"num_nodes", nullptr}};
  const auto backend = open_toy(
      toy_section("llama_text", {{"colocated", {{"enabled", true}, {"resources", resources}}}}));
  EXPECT_EQ(backend->generation().shard_metrics().size(), 2u);
  const auto before = roll_out(*backend);
  ASSERT_TRUE(backend->finish_generation(true).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(roll_out(*backend).status()));
  ASSERT_TRUE(backend->prepare_for_generation(std::vector<std::string>{"weights"}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(roll_out(*backend).status()));
  ASSERT_TRUE(backend->prepare_for_generation({}).ok());
  ASSERT_TRUE(backend->prepare_for_generation({}).ok());
  const auto after = roll_out(*backend);
  EXPECT_EQ(ids_of(before), ids_of(after));
  EXPECT_EQ(logprobs_of(before), logprobs_of(after));
}

TEST(OpenGeneration, T33_T34_MetricsCountWhatTheEngineDid) {
  const auto backend = open_toy(toy_section("llama_text"));
  backend->snapshot_step_metrics();
  ASSERT_TRUE(roll_out(*backend).ok());
  const StepMetrics step = backend->get_step_metrics();
  EXPECT_EQ(step.at("rlgen/generated_tokens"), 6.0);
  EXPECT_EQ(step.at("rlgen/prompt_tokens"), 3.0);
  EXPECT_EQ(backend->get_logger_metrics().at("generation_tokens").at(0).back(), 6.0);
}

// What is served, without the digests, and its bytes.
struct Tensors {
  std::vector<ManifestEntry> manifest;
  std::vector<std::vector<std::byte>> bytes;
};

Tensors read_all(RlgenGeneration& backend) {
  Tensors all;
  all.manifest = *backend.generation().served_checksums();
  for (ManifestEntry& entry : all.manifest) {
    entry.digest.clear();
    all.bytes.push_back(backend.generation().read_tensor(entry.name)->bytes);
  }
  return all;
}

// The trainer's end, until its tensors are served or refused.
Status send_all(const std::string& endpoint, const Tensors& tensors) {
  RLGEN_ASSIGN_OR_RETURN(auto sender, refit::IpcSender::create(endpoint, {}));
  for (size_t i = 0; i < tensors.manifest.size(); ++i) {
    const ManifestEntry& entry = tensors.manifest[i];
    RLGEN_RETURN_IF_ERROR(
        sender.send(entry.name, dense_view(tensors.bytes[i].data(), entry.dtype, entry.shape)));
  }
  return sender.finish();
}

TEST(OpenGeneration, T18_T40_WeightsComeFromATrainersProcess) {
  const auto backend = open_toy(toy_section("llama_text"));
  const auto other = open_toy(toy_section("llama_text"));
  EXPECT_NE(backend->ipc_endpoint(), other->ipc_endpoint());
  const auto before = roll_out(*backend);
  EXPECT_THAT(versions_of_tokens(before), Each(0));
  Tensors tensors = read_all(*backend);
  for (std::vector<std::byte>& bytes : tensors.bytes) {
    std::rotate(bytes.begin(), bytes.begin() + 2, bytes.end());  // by one bfloat16
  }
  ASSERT_TRUE(backend->prepare_refit_info(tensors.manifest).ok());
  ASSERT_TRUE(*backend->pause_generation_for_refit(true, std::nullopt));
  auto sending = std::async(std::launch::async, send_all, backend->ipc_endpoint(), tensors);
  const auto pending = backend->update_weights_via_ipc_zmq();
  ASSERT_TRUE(pending.ok()) << pending.status();
  EXPECT_TRUE(pending->at(0).get().ok()) << pending->at(0).get();
  EXPECT_TRUE(sending.get().ok());
  ASSERT_TRUE(backend->set_rollout_weight_version(7).ok());
  ASSERT_TRUE(*backend->resume_generation_after_refit(std::nullopt));
  const auto after = roll_out(*backend);
  EXPECT_THAT(versions_of_tokens(after), Each(7));
  EXPECT_NE(logprobs_of(before), logprobs_of(after));
  EXPECT_EQ(read_all(*backend).bytes, tensors.bytes);
}

TEST(OpenGeneration, T39_AnUpdateThatLacksATensorLeavesTheOldWeightsServingAndThePauseInForce) {
  const auto backend = open_toy(toy_section("llama_text"));
  const auto before = roll_out(*backend);
  Tensors tensors = read_all(*backend);
  ASSERT_TRUE(backend->prepare_refit_info(tensors.manifest).ok());
  tensors.manifest.pop_back();
  ASSERT_TRUE(*backend->pause_generation_for_refit(true, std::nullopt));
  auto sending = std::async(std::launch::async, send_all, backend->ipc_endpoint(), tensors);
  const Status refused = backend->update_weights_via_ipc_zmq()->at(0).get();
  EXPECT_TRUE(sending.get().ok());
  EXPECT_EQ(error_type(refused), "IPCWeightManifestError") << refused;
  EXPECT_TRUE(backend->generation().paused());
  ASSERT_TRUE(*backend->resume_generation_after_refit(std::nullopt));
  const auto after = roll_out(*backend);
  EXPECT_THAT(versions_of_tokens(after), Each(0));
  EXPECT_EQ(logprobs_of(before), logprobs_of(after));
}

}  // namespace
}  // namespace rlgen
