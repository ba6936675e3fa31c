#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/config/generation_config.h"
#include "contract/generation_interface.h"
#include "generation/datum_requests.h"
#include "generation/generation.h"
#include "generation/metrics_sampler.h"

namespace rlgen::generation {

// Where weights come from a trainer's process on this machine.
struct IpcWeights {
  std::string endpoint;  // of the local socket; where the sender waits
  // Takes one whole update into the sink and commits it, or aborts it; blocks. Any thread.
  std::function<Status(const UpdateSpec& spec, WeightSink& sink)> receive;
};

// What the backend needs beside its configuration.
struct RlgenGenerationParts {
  ShardLauncher* launcher = nullptr;  // borrowed during start
  // Of the trainer's tokenizer. Not set: the pad id below and the shards' end-of-sequence ids.
  std::optional<TokenizerFacts> tokenizer;
  std::optional<int32_t> pad_token_id;  // of the checkpoint's tokenizer
  GenerationOptions options;            // stall_timeout is the configuration's
  IpcWeights ipc;                       // empty: update_weights_via_ipc_zmq is kFailedPrecondition
};

// The switch of a trainer's whole configuration that needs rollouts with their routes.
inline constexpr std::string_view kRouterReplaySetting = "policy.router_replay.enabled";
// What this backend lacks, likewise: token capture, fleet health.
inline constexpr std::array<std::string_view, 2> kRefusedSettings = {
    "token_capture.enabled", "async_rl.generation_fleet_health.enabled"};

// The backend "rlgen" over the shards that a configuration asks for. Thread-safe. What is pending
// may outlive it and keeps the shards; its last holder waits for it.
//
// Seven members are not supported: init_collective, update_weights_from_collective,
// prepare_nccl_reshard_refit_info, nccl_reshard_refit, attach_fleet_health, restart_shard and
// setup_token_capture.
class RlgenGeneration final : public GenerationInterface {
 public:
  // Starts the shards of `config` (as read_generation_config gives it) and finalises it. Errors:
  // those of Generation::start, in the words of the configuration.
  static StatusOr<std::unique_ptr<RlgenGeneration>> start(GenerationConfig config,
                                                          RlgenGenerationParts parts);
  ~RlgenGeneration() override;

  // Reads policy.generation of a trainer's whole configuration as read_generation_config does and
  // refuses each of kRefusedSettings that is neither null nor false (kUnimplemented), and
  // kRouterReplaySetting where the shards do not record routes (kInvalidArgument). Nothing else of
  // the configuration is looked at.
  static Status validate_settings(const nlohmann::json& master_config);

  // As it is in force.
  const GenerationConfig& config() const { return config_; }
  // For requests and updates of one's own.
  Generation& generation() { return *generation_; }
  // Where the trainer's process sends weights for update_weights_via_ipc_zmq; may be empty.
  const std::string& ipc_endpoint() const { return ipc_.endpoint; }

  StatusOr<GenerationOutputSpec> generate(const GenerationDatumSpec& data, bool greedy) override;
  // With another profile than that of training.
  StatusOr<GenerationOutputSpec> generate(const GenerationDatumSpec& data,
                                          const DatumSampling& sampling);

  // Wakes the weights, the KV cache, or both without `tags`. Tags of other backends ask for nothing
  // here. Cheap where nothing sleeps.
  Status prepare_for_generation(std::span<const std::string> tags) override;
  // Colocated engines give weights and KV to the system where release_gpu says so; otherwise all go
  // on serving.
  Status finish_generation(bool release_gpu) override;
  // What is in flight ends with "abort".
  Status shutdown() override;

  // Modes keep, wait, abort and retract. Errors: Generation::pause's and resume's.
  Status pause_generation(std::string_view mode) override;
  Status continue_generation() override;
  // kInvalidArgument for a timeout that is not a finite time above 0.
  StatusOr<bool> pause_generation_for_refit(
      bool clear_cache, std::optional<std::chrono::duration<double>> timeout) override;
  StatusOr<bool> resume_generation_after_refit(
      std::optional<std::chrono::duration<double>> timeout) override;
  StatusOr<bool> invalidate_kv_cache() override { return generation_->invalidate_kv_cache(); }

  // Pending until the shard answers; kUnavailable where it does not serve. kInvalidArgument for a
  // shard that does not exist.
  StatusOr<PendingStatus> shard_liveness_ref(int32_t shard_idx) override;
  StatusOr<std::optional<std::string>> restart_shard(int32_t shard_idx) override;
  Status attach_fleet_health(GenerationFleetHealth* monitor,
                             HealthyShardSelector* selector) override;

  // Learns what an update by IPC brings. Nothing is to be quantized by the trainer.
  StatusOr<std::optional<std::vector<std::string>>> prepare_refit_info(
      const std::optional<std::vector<ManifestEntry>>& state_dict_info) override;
  // Receives an update at ipc_endpoint(): one pending status for all shards. Requests in flight
  // rebuild their KV, unless generation is paused: then the pause has said what becomes of it.
  // kFailedPrecondition where nobody said which tensors will come.
  StatusOr<std::vector<PendingStatus>> update_weights_via_ipc_zmq() override;
  Status set_rollout_weight_version(WeightVersion version) override;

  StatusOr<std::vector<PendingStatus>> init_collective(const std::string& ip, int32_t port,
                                                       int32_t world_size,
                                                       int32_t train_world_size) override;
  // A deadline is refused first (reject_unenforceable_refit_deadline), here and below.
  StatusOr<std::vector<PendingStatus>> update_weights_from_collective(
      std::optional<double> refit_timeout_s) override;
  Status prepare_nccl_reshard_refit_info(const nlohmann::json& refit_info) override;
  StatusOr<std::vector<PendingStatus>> nccl_reshard_refit(
      std::optional<double> refit_timeout_s) override;

  // True for colocated engines.
  bool blocks_training() const override { return config_.colocated.enabled; }

  StatusOr<std::optional<MediaColumnSpec>> setup_token_capture(const nlohmann::json& dp_cfg,
                                                               const std::string& staging_partition,
                                                               bool capture_media) override;

  // As MetricsSampler has them.
  void clear_logger_metrics() override { metrics_->clear(); }
  LoggerMetrics get_logger_metrics() override { return metrics_->get(); }
  LoggerMetrics drain_latest_logger_metrics() override { return metrics_->drain(); }
  void snapshot_step_metrics() override { metrics_->snapshot(); }
  StepMetrics get_step_metrics() override { return metrics_->step(); }

 private:
  RlgenGeneration(GenerationConfig config, IpcWeights ipc, LogSink log);

  GenerationConfig config_;                  // immutable after start
  IpcWeights ipc_;                           // immutable
  std::shared_ptr<Generation> generation_;   // set by start
  std::unique_ptr<MetricsSampler> metrics_;  // set by start

  std::mutex mutex_;
  std::optional<std::vector<ManifestEntry>> manifest_;  // guarded by mutex_
  int64_t ipc_updates_ = 0;                             // guarded by mutex_
};

}  // namespace rlgen::generation
