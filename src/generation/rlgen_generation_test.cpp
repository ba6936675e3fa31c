#include "generation/rlgen_generation.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "contract/error_type.h"
#include "generation/generation_fixture.h"

namespace rlgen::generation {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Seconds = std::chrono::duration<double>;

json section_of_backend(const json& extra = json::object()) {
  json section{{"backend", "rlgen"},     {"max_new_tokens", 4},
               {"temperature", 1.0},     {"top_p", 1.0},
               {"top_k", nullptr},       {"val_temperature", 1.0},
               {"val_top_p", 1.0},       {"val_top_k", nullptr},
               {"model_name", "folder"}, {"stop_token_ids", nullptr},
               {"stop_strings", nullptr}};
  section.update(extra);
  return section;
}

const json kColocated = {
    {"colocated",
     {{"enabled", true}, {"resources", {{"gpus_per_node", nullptr}, {"num_nodes", nullptr}}}}}};

class RlgenGenerationTest : public GenerationTest {
 protected:
  std::unique_ptr<RlgenGeneration> start_backend(const json& extra = json::object(),
                                                 RlgenGenerationParts parts = {}) {
    FakeLauncher launcher({state_});
    parts.launcher = &launcher;
    if (!parts.pad_token_id) parts.pad_token_id = 9;
    auto config = read_generation_config(section_of_backend(extra));
    EXPECT_TRUE(config.ok()) << config.status();
    auto made = RlgenGeneration::start(*std::move(config), std::move(parts));
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  std::vector<std::string> controls() {
    const std::lock_guard lock(state_->mutex);
    return state_->controls;
  }

  void count(int64_t generated_tokens) {
    const std::lock_guard lock(state_->mutex);
    state_->metrics.generated_tokens = generated_tokens;
  }
};

TEST_F(RlgenGenerationTest, GeneratesThroughTheInterface) {
  const auto backend = start_backend();
  GenerationInterface& face = *backend;
  HostTensor ids(DType::kInt64, Shape{1, 2});
  ASSERT_TRUE(write_integers(std::vector<int64_t>{1, 2}, &ids).ok());
  const HostTensor lengths = HostTensor::of(std::vector<int64_t>{2});
  const GenerationDatumSpec datum{
      .input_ids = ids.view(), .input_lengths = lengths.view(), .stop_strings = {}, .seeds = {}};
  const auto batch = face.generate(datum, true);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(*read_integers(batch->output_ids.view()), (std::vector<int64_t>{1, 2, 100, 3}));
  const GenerationSamplingParams warm{.temperature = 0.5};
  const auto hot = backend->generate(datum, {.greedy = false, .params = warm});
  ASSERT_TRUE(hot.ok()) << hot.status();
  EXPECT_EQ(state_->seen()[0].sampling.temperature, 0.0);
  EXPECT_EQ(state_->seen()[1].sampling.temperature, 0.5);
}

TEST_F(RlgenGenerationTest, TheTokenizerOfTheTrainerGoesBeforeTheCheckpoints) {
  state_->info.eos_token_ids = {3};
  EXPECT_EQ(start_backend()->config().pad_token_id, 9);
  EXPECT_EQ(start_backend()->config().stop_token_ids, std::vector<int32_t>{3});
  RlgenGenerationParts parts{.tokenizer = TokenizerFacts{.pad_token_id = 5, .eos_token_ids = {7}}};
  const auto backend = start_backend(json::object(), std::move(parts));
  EXPECT_EQ(backend->config().pad_token_id, 5);
  EXPECT_EQ(backend->config().stop_token_ids, std::vector<int32_t>{7});
}

TEST_F(RlgenGenerationTest, RefusesExactlySevenMembers) {
  const auto backend = start_backend();
  const std::map<std::string, Status> refused = {
      {"init_collective", backend->init_collective("", 1, 2, 1).status()},
      {"update_weights_from_collective", backend->update_weights_from_collective({}).status()},
      {"prepare_nccl_reshard_refit_info", backend->prepare_nccl_reshard_refit_info({})},
      {"nccl_reshard_refit", backend->nccl_reshard_refit({}).status()},
      {"attach_fleet_health", backend->attach_fleet_health(nullptr, nullptr)},
      {"restart_shard", backend->restart_shard(0).status()},
      {"setup_token_capture", backend->setup_token_capture({}, "", false).status()}};
  EXPECT_THAT(refused, SizeIs(7));
  for (const auto& [member, status] : refused) {
    EXPECT_EQ(error_kind(status), ErrorKind::kNotImplementedError) << status;
    EXPECT_THAT(message_of(status), HasSubstr("RlgenGeneration." + member));
  }
  for (const Status& status :
       {backend->prepare_for_generation({}), backend->finish_generation(true),
        backend->pause_generation("keep"), backend->continue_generation(),
        backend->prepare_refit_info({}).status(), backend->set_rollout_weight_version(1),
        backend->update_weights_via_ipc_zmq().status(), backend->shard_liveness_ref(0).status(),
        backend->invalidate_kv_cache().status(), backend->shutdown()}) {
    EXPECT_NE(error_kind(status), ErrorKind::kNotImplementedError) << status;
  }
}

TEST_F(RlgenGenerationTest, T22_DeadlinesThatNobodyKeepsAreRefused) {
  const auto backend = start_backend();
  for (const Status& status : {backend->update_weights_from_collective(30.0).status(),
                               backend->nccl_reshard_refit(30.0).status()}) {
    EXPECT_EQ(error_kind(status), ErrorKind::kNotImplementedError);
    EXPECT_THAT(message_of(status), HasSubstr("refit_timeout_s"));
  }
}

TEST_F(RlgenGenerationTest, EveryPauseModeReachesTheShardAndAnotherIsRefused) {
  const auto backend = start_backend();
  for (const char* mode : {"keep", "wait", "abort", "retract"}) {
    EXPECT_TRUE(backend->pause_generation(mode).ok());
    EXPECT_TRUE(backend->continue_generation().ok());
  }
  EXPECT_THAT(controls(), ElementsAre("keep", "resume", "wait", "resume", "abort", "resume",
                                      "retract", "resume"));
  const Status error = backend->pause_generation("in_place");
  EXPECT_EQ(error_kind(error), ErrorKind::kValueError);
  EXPECT_THAT(message_of(error), HasSubstr("keep, wait, abort, retract"));
}

TEST_F(RlgenGenerationTest, ThePauseForARefitFreezesAndClears) {
  const auto backend = start_backend();
  EXPECT_TRUE(*backend->resume_generation_after_refit(std::nullopt));
  EXPECT_TRUE(*backend->pause_generation_for_refit(true, std::nullopt));
  EXPECT_TRUE(*backend->resume_generation_after_refit(Seconds(5)));
  EXPECT_TRUE(*backend->pause_generation_for_refit(false, Seconds(5)));
  EXPECT_THAT(controls(), ElementsAre("resume", "keep", "clear", "resume", "keep"));
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    for (const Status& status : {backend->pause_generation_for_refit(true, Seconds(bad)).status(),
                                 backend->resume_generation_after_refit(Seconds(bad)).status()}) {
      EXPECT_EQ(error_kind(status), ErrorKind::kValueError) << bad;
    }
  }
}

TEST_F(RlgenGenerationTest, T41_AShardThatDoesNotPauseInTimeIsNamed) {
  const auto gate = std::make_shared<std::promise<void>>();
  state_->control = [opened = gate->get_future().share()](std::string_view) {
    opened.wait();
    return absl::OkStatus();
  };
  const auto backend = start_backend();
  const Status late =
      backend->pause_generation_for_refit(true, std::chrono::duration<double>(0.01)).status();
  EXPECT_EQ(error_kind(late), ErrorKind::kTimeoutError);
  EXPECT_THAT(message_of(late), HasSubstr("shard 0"));
  gate->set_value();
}

TEST_F(RlgenGenerationTest, ColocatedBlocksTraining) {
  EXPECT_FALSE(start_backend()->blocks_training());
  EXPECT_TRUE(start_backend(kColocated)->blocks_training());
  EXPECT_FALSE(start_backend(kColocated)->wake_carries_weight_updates());
}

TEST_F(RlgenGenerationTest, T15_T16_AColocatedBackendStandsDownAndWakesOnce) {
  const auto backend = start_backend(kColocated);
  EXPECT_TRUE(backend->finish_generation(false).ok());
  EXPECT_TRUE(backend->prepare_for_generation({}).ok());
  EXPECT_THAT(controls(), IsEmpty());
  EXPECT_TRUE(backend->finish_generation(true).ok());
  EXPECT_TRUE(backend->prepare_for_generation({}).ok());
  EXPECT_TRUE(backend->prepare_for_generation({}).ok());
  EXPECT_THAT(controls(), ElementsAre("sleep", "wake"));
}

TEST_F(RlgenGenerationTest, T15_TagsWakeWhatTheyNameAndForeignOnesNothing) {
  const auto backend = start_backend(kColocated);
  EXPECT_TRUE(backend->finish_generation(true).ok());
  const auto wake = [&](std::vector<std::string> tags) {
    EXPECT_TRUE(backend->prepare_for_generation(tags).ok());
    return backend->generation().asleep();
  };
  EXPECT_TRUE(wake({"colocated_refit"}).weights);
  EXPECT_FALSE(wake({"weights"}).weights);
  EXPECT_TRUE(backend->generation().asleep().kv_cache);
  EXPECT_FALSE(wake({"colocated_refit", "kv_cache"}).kv_cache);
  EXPECT_THAT(controls(), ElementsAre("sleep", "wake", "wake"));
}

TEST_F(RlgenGenerationTest, T16_ABackendOfItsOwnStaysUp) {
  EXPECT_TRUE(start_backend()->finish_generation(true).ok());
  EXPECT_THAT(controls(), IsEmpty());
}

TEST_F(RlgenGenerationTest, T17_ShutdownTwiceIsFine) {
  const auto backend = start_backend();
  EXPECT_TRUE(backend->shutdown().ok());
  EXPECT_TRUE(backend->shutdown().ok());
}

TEST_F(RlgenGenerationTest, AShardIsAskedWhetherItServes) {
  const auto backend = start_backend();
  EXPECT_TRUE(backend->shard_liveness_ref(0)->get().ok());
  {
    const std::lock_guard lock(state_->mutex);
    state_->health.serving = false;
  }
  EXPECT_TRUE(absl::IsUnavailable(backend->shard_liveness_ref(0)->get()));
  EXPECT_THAT(message_of(backend->shard_liveness_ref(1).status()),
              HasSubstr("there is no shard 1; shards go from 0 to 0"));
}

// What an update by IPC was asked for.
struct IpcCalls {
  std::vector<UpdateSpec> specs;
  IpcWeights weights() {
    return {.endpoint = "ipc:///here", .receive = [this](const UpdateSpec& spec, WeightSink& sink) {
              specs.push_back(spec);
              RLGEN_RETURN_IF_ERROR(sink.begin(spec));
              RLGEN_RETURN_IF_ERROR(sink.abort(spec.update_id));
              return absl::DataLossError("the sender died");
            }};
  }
};

TEST_F(RlgenGenerationTest, AnUpdateByIpcNeedsItsListFirst) {
  IpcCalls calls;
  RlgenGenerationParts parts;
  parts.ipc = calls.weights();
  const auto backend = start_backend(json::object(), std::move(parts));
  EXPECT_EQ(backend->ipc_endpoint(), "ipc:///here");
  EXPECT_THAT(message_of(backend->update_weights_via_ipc_zmq().status()),
              HasSubstr("prepare_refit_info"));
  std::vector<ManifestEntry> manifest;
  for (const char* name : {"a", "b"}) manifest.push_back({.name = name, .shape = Shape{4}});
  EXPECT_EQ(*backend->prepare_refit_info(manifest), std::nullopt);
  const auto receive = [&] {
    const auto pending = backend->update_weights_via_ipc_zmq();
    EXPECT_THAT(*pending, SizeIs(1));
    return pending->at(0).get();
  };
  EXPECT_TRUE(absl::IsDataLoss(receive()));
  EXPECT_TRUE(backend->pause_generation("keep").ok());
  EXPECT_TRUE(absl::IsDataLoss(receive()));
  ASSERT_THAT(calls.specs, SizeIs(2));
  EXPECT_EQ(calls.specs[0].manifest[1].name, "b");
  EXPECT_EQ(calls.specs[0].kv_policy, KvPolicy::kRecompute);
  EXPECT_EQ(calls.specs[1].kv_policy, KvPolicy::kKeep);
  EXPECT_NE(calls.specs[0].update_id, calls.specs[1].update_id);
}

TEST_F(RlgenGenerationTest, WithoutAPlaceToReceiveAtAnUpdateByIpcIsRefused) {
  const auto backend = start_backend();
  EXPECT_TRUE(backend->prepare_refit_info(std::vector<ManifestEntry>{{.name = "w"}}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(backend->update_weights_via_ipc_zmq().status()));
}

TEST_F(RlgenGenerationTest, WhatIsPendingMayOutliveTheBackend) {
  const auto gate = std::make_shared<std::promise<void>>();
  RlgenGenerationParts parts;
  parts.ipc.receive = [opened = gate->get_future().share()](const UpdateSpec& spec,
                                                            WeightSink& sink) {
    opened.wait();
    return sink.abort(spec.update_id);
  };
  auto backend = start_backend(json::object(), std::move(parts));
  EXPECT_TRUE(backend->prepare_refit_info(std::vector<ManifestEntry>{{.name = "w"}}).ok());
  const auto pending = backend->update_weights_via_ipc_zmq();
  ASSERT_TRUE(pending.ok()) << pending.status();
  backend.reset();
  EXPECT_EQ(pending->at(0).wait_for(milliseconds(0)), std::future_status::timeout);
  gate->set_value();
  pending->at(0).wait();
}

TEST_F(RlgenGenerationTest, T33_T34_MetricsAreThoseOfTheShards) {
  const auto backend = start_backend();
  EXPECT_THAT(backend->get_logger_metrics()["generation_tokens"][0], Contains(10.0));
  backend->snapshot_step_metrics();
  count(14);
  EXPECT_THAT(backend->drain_latest_logger_metrics()["generation_tokens"][0], ElementsAre(14.0));
  EXPECT_EQ(backend->get_step_metrics()["rlgen/generated_tokens"], 4.0);
  EXPECT_THAT(backend->get_step_metrics(), IsEmpty());
}

TEST_F(RlgenGenerationTest, SamplesAreTakenMeanwhile) {
  std::promise<void> twice;
  std::atomic<int> asked = 0;
  state_->on_metrics = [&] {
    if (++asked == 2) twice.set_value();
  };
  const auto backend = start_backend();
  ASSERT_EQ(twice.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_THAT(backend->get_logger_metrics()["generation_tokens"][0], SizeIs(Ge(2)));
}

TEST(RlgenSettings, WhatTheBackendLacksIsRefusedBeforeAnythingIsBuilt) {
  json master{{"policy", {{"generation", section_of_backend()}}}};
  EXPECT_TRUE(RlgenGeneration::validate_settings(master).ok());
  for (const std::string key :
       {"token_capture.enabled", "async_rl.generation_fleet_health.enabled"}) {
    std::string pointer = "/" + key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    json with = master;
    with[json::json_pointer(pointer)] = true;
    const Status refused = RlgenGeneration::validate_settings(with);
    EXPECT_EQ(error_kind(refused), ErrorKind::kNotImplementedError);
    EXPECT_THAT(message_of(refused), AllOf(HasSubstr("RlgenGeneration"), HasSubstr(key)));
    with[json::json_pointer(pointer)] = false;
    EXPECT_TRUE(RlgenGeneration::validate_settings(with).ok()) << key;
  }
  master["policy"]["generation"]["top_k"] = 0;
  EXPECT_THAT(message_of(RlgenGeneration::validate_settings(master)),
              HasSubstr("policy.generation.top_k"));
  EXPECT_FALSE(RlgenGeneration::validate_settings(json::object()).ok());
}

TEST(RlgenSettings, FB237_RouterReplayNeedsRecordedRoutes) {
  json master{{"policy", {{"generation", section_of_backend()}}}};
  master["policy"]["router_replay"] = {{"enabled", true}};
  const Status refused = RlgenGeneration::validate_settings(master);
  EXPECT_EQ(error_kind(refused), ErrorKind::kValueError);
  EXPECT_THAT(message_of(refused), AllOf(HasSubstr("policy.router_replay.enabled"),
                                         HasSubstr("rlgen_cfg.enable_return_routed_experts")));
  master["policy"]["generation"]["rlgen_cfg"] = {{"enable_return_routed_experts", true}};
  EXPECT_TRUE(RlgenGeneration::validate_settings(master).ok());
  // Recording alone is allowed.
  master["policy"]["router_replay"]["enabled"] = false;
  EXPECT_TRUE(RlgenGeneration::validate_settings(master).ok());
  master["policy"].erase("router_replay");
  EXPECT_TRUE(RlgenGeneration::validate_settings(master).ok());
}

}  // namespace
}  // namespace rlgen::generation
