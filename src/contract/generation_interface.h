#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "contract/batch/generation_specs.h"
#include "contract/collective_sender_spec.h"
#include "contract/ids.h"
#include "contract/media_column_spec.h"
#include "contract/weight_sink.h"

namespace rlgen {

class GenerationFleetHealth;  // who is fit to serve; defined with the fleet
class HealthyShardSelector;   // picks among those; defined with the fleet

// What work that was started comes to. Ready when it is done; an error says what failed, and only
// OK is success.
using PendingStatus = std::shared_future<Status>;

// Metric -> index of the shard -> samples, oldest first.
using LoggerMetrics = std::map<std::string, std::map<int32_t, std::vector<double>>>;
using StepMetrics = std::map<std::string, double>;

// A generation backend as a trainer drives it: generate between prepare_for_generation and
// finish_generation, take new weights, pause around a refit, give telemetry.
//
// Seventeen members are abstract: every backend says of each what it does. Their bodies here are
// for backends that cannot: they give kUnimplemented (NotImplementedError) that names the class and
// the member. The others have the defaults stated with them. Where Python returns True or raises,
// these give OK or an error. Which threads may call is the backend's to say; what blocks says so.
class GenerationInterface {
 public:
  virtual ~GenerationInterface() = default;
  GenerationInterface(const GenerationInterface&) = delete;
  GenerationInterface& operator=(const GenerationInterface&) = delete;

  // The class as messages name it.
  const std::string& class_name() const { return class_name_; }

  // Judges the trainer's whole configuration before anything is built; a backend hides it with its
  // own. Here: OK.
  static Status validate_settings(const nlohmann::json& master_config);

  // --- generating ---

  // Generates for every row of `data`; blocks. Greedy takes the likeliest token. Row i of the
  // result belongs to row i. Errors while the engine is asleep or not started: kFailedPrecondition.
  virtual StatusOr<GenerationOutputSpec> generate(const GenerationDatumSpec& data, bool greedy) = 0;

  // Starts or wakes the engine: everything, or what `tags` name ("weights", "kv_cache"). Safe and
  // cheap on one that runs.
  virtual Status prepare_for_generation(std::span<const std::string> tags) = 0;

  // The phase is over. release_gpu: the caller needs the machine, so a colocated engine gives
  // everything up; otherwise it stays usable without another prepare_for_generation.
  virtual Status finish_generation(bool release_gpu) = 0;

  // Repeated calls are safe.
  virtual Status shutdown() = 0;

  // Pauses what is in flight, in a mode of the backend's (kInvalidArgument lists them), and goes
  // on.
  virtual Status pause_generation(std::string_view mode) = 0;
  virtual Status continue_generation() = 0;

  // --- shards ---

  // Rebuilds one shard; blocks as long as loading a model takes. The URL of its new server, nothing
  // without one.
  virtual StatusOr<std::optional<std::string>> restart_shard(int32_t shard_idx) = 0;

  // Ready with OK once the shard has answered that it lives.
  virtual StatusOr<PendingStatus> shard_liveness_ref(int32_t shard_idx) = 0;

  // Logs the state of the machine that the shard is on, under `label`, within `timeout`. A
  // diagnostic: never an error. Here: nothing.
  virtual void log_shard_gpu_state(int32_t shard_idx, std::string_view label,
                                   std::chrono::duration<double> timeout);

  // From now on `selector` chooses shards, and `monitor` hears what became of them. Borrowed.
  virtual Status attach_fleet_health(GenerationFleetHealth* monitor,
                                     HealthyShardSelector* selector) = 0;

  // --- weights ---

  // Joins the group of trainer and shards: ranks 0 .. train_world_size - 1 are the trainer's. Does
  // not wait for the others.
  virtual StatusOr<std::vector<PendingStatus>> init_collective(const std::string& ip, int32_t port,
                                                               int32_t world_size,
                                                               int32_t train_world_size) = 0;

  // What tensors will come, in order; nothing where the sender has no such list. The names that the
  // trainer should quantize before it sends them, or nothing.
  virtual StatusOr<std::optional<std::vector<std::string>>> prepare_refit_info(
      const std::optional<std::vector<ManifestEntry>>& state_dict_info) = 0;

  virtual StatusOr<std::vector<PendingStatus>> update_weights_via_ipc_zmq() = 0;
  virtual StatusOr<std::vector<PendingStatus>> update_weights_from_collective(
      std::optional<double> refit_timeout_s) = 0;
  virtual Status prepare_nccl_reshard_refit_info(const nlohmann::json& refit_info) = 0;
  virtual StatusOr<std::vector<PendingStatus>> nccl_reshard_refit(
      std::optional<double> refit_timeout_s) = 0;

  // Names the weights now served: tokens made from then on carry `version`.
  virtual Status set_rollout_weight_version(WeightVersion version) = 0;

  // How the trainer has to send. Here: the defaults.
  virtual StatusOr<CollectiveSenderSpec> get_collective_sender_spec();

  // Ranks on this side where the backend decides them. Here: nothing.
  virtual StatusOr<std::optional<int32_t>> get_inference_world_size();

  // Whether scales of the KV cache have to come with a refit. Here: false.
  virtual bool requires_kv_scale_sync() const;

  // True only where from now on no KV of earlier weights is read again, requests in flight
  // included. Here: false.
  virtual StatusOr<bool> invalidate_kv_cache();

  // Freezes every engine for the refit to come; with clear_cache what is frozen rebuilds its KV
  // under the new weights. True: it holds. An engine that fails to pause is an error, one not in
  // time kDeadlineExceeded; without a timeout kPauseBudget holds. Here: one warning per class name
  // and process, and false.
  virtual StatusOr<bool> pause_generation_for_refit(
      bool clear_cache, std::optional<std::chrono::duration<double>> timeout);
  // True: every engine runs again, also when none was paused. Here: as above.
  virtual StatusOr<bool> resume_generation_after_refit(
      std::optional<std::chrono::duration<double>> timeout);

  // True where the engine has to stand down before each training step. Here: false.
  virtual bool blocks_training() const;

  // True where waking up is all it takes to serve the latest weights. Here: false.
  virtual bool wake_carries_weight_updates() const;

  // Installs the capture of tokens in the shards; with capture_media the spec of its column.
  virtual StatusOr<std::optional<MediaColumnSpec>> setup_token_capture(
      const nlohmann::json& dp_cfg, const std::string& staging_partition, bool capture_media) = 0;

  // --- telemetry; here: nothing, and empty ---

  virtual void clear_logger_metrics();
  virtual LoggerMetrics get_logger_metrics();
  // Begins the window that get_step_metrics ends: what was added in between, no running totals.
  virtual void snapshot_step_metrics();
  virtual StepMetrics get_step_metrics();
  // At most the latest sample of each list; a later get_logger_metrics may lack what is drained.
  virtual LoggerMetrics drain_latest_logger_metrics();

 protected:
  explicit GenerationInterface(std::string class_name, LogSink log = {});

  // kUnimplemented: "<class>.<member> is not supported", and the setting that asked for it.
  Status unsupported(std::string_view member, std::string_view setting = "") const;

  const LogSink& log() const { return log_; }

 private:
  std::string class_name_;
  LogSink log_;
};

// How long a pause or a resume around a refit may take where no timeout is given.
inline constexpr std::chrono::seconds kPauseBudget{360};
// What is added to a refit's own deadline for them.
inline constexpr std::chrono::seconds kPauseGrace{60};

// For backends that do the five things every backend does, and no more: the other abstract members
// say that they are not supported.
class UnsupportedByDefault : public GenerationInterface {
 public:
  Status pause_generation(std::string_view mode) override;
  Status continue_generation() override;
  StatusOr<std::optional<std::string>> restart_shard(int32_t shard_idx) override;
  StatusOr<PendingStatus> shard_liveness_ref(int32_t shard_idx) override;
  Status attach_fleet_health(GenerationFleetHealth* monitor,
                             HealthyShardSelector* selector) override;
  StatusOr<std::optional<std::vector<std::string>>> prepare_refit_info(
      const std::optional<std::vector<ManifestEntry>>& state_dict_info) override;
  StatusOr<std::vector<PendingStatus>> update_weights_via_ipc_zmq() override;
  StatusOr<std::vector<PendingStatus>> update_weights_from_collective(
      std::optional<double> refit_timeout_s) override;
  Status prepare_nccl_reshard_refit_info(const nlohmann::json& refit_info) override;
  StatusOr<std::vector<PendingStatus>> nccl_reshard_refit(
      std::optional<double> refit_timeout_s) override;
  Status set_rollout_weight_version(WeightVersion version) override;
  StatusOr<std::optional<MediaColumnSpec>> setup_token_capture(const nlohmann::json& dp_cfg,
                                                               const std::string& staging_partition,
                                                               bool capture_media) override;

 protected:
  using GenerationInterface::GenerationInterface;
};

}  // namespace rlgen
