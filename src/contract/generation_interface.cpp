#include "contract/generation_interface.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "contract/warn_once.h"

namespace rlgen {

using StringList = std::vector<std::string>;
using PendingList = std::vector<PendingStatus>;

GenerationInterface::GenerationInterface(std::string class_name, LogSink log)
    : class_name_(std::move(class_name)), log_(std::move(log)) {}

Status GenerationInterface::unsupported(std::string_view member, std::string_view setting) const {
  const std::string asked = setting.empty() ? "" : fmt::format("; {} asked for it", setting);
  return absl::UnimplementedError(
      fmt::format("{}.{} is not supported{}", class_name_, member, asked));
}

Status GenerationInterface::validate_settings(const nlohmann::json&) { return absl::OkStatus(); }

// The abstract members.

StatusOr<GenerationOutputSpec> GenerationInterface::generate(const GenerationDatumSpec&, bool) {
  return unsupported("generate");
}
Status GenerationInterface::prepare_for_generation(std::span<const std::string>) {
  return unsupported("prepare_for_generation");
}
Status GenerationInterface::finish_generation(bool) { return unsupported("finish_generation"); }
Status GenerationInterface::shutdown() { return unsupported("shutdown"); }
Status GenerationInterface::pause_generation(std::string_view) {
  return unsupported("pause_generation");
}
Status GenerationInterface::continue_generation() { return unsupported("continue_generation"); }
StatusOr<std::optional<std::string>> GenerationInterface::restart_shard(int32_t) {
  return unsupported("restart_shard");
}
StatusOr<PendingStatus> GenerationInterface::shard_liveness_ref(int32_t) {
  return unsupported("shard_liveness_ref");
}
Status GenerationInterface::attach_fleet_health(GenerationFleetHealth*, HealthyShardSelector*) {
  return unsupported("attach_fleet_health", "async_rl.generation_fleet_health.enabled=true");
}
StatusOr<PendingList> GenerationInterface::init_collective(const std::string&, int32_t, int32_t,
                                                           int32_t) {
  return unsupported("init_collective");
}
StatusOr<std::optional<StringList>> GenerationInterface::prepare_refit_info(
    const std::optional<std::vector<ManifestEntry>>&) {
  return unsupported("prepare_refit_info");
}
StatusOr<PendingList> GenerationInterface::update_weights_via_ipc_zmq() {
  return unsupported("update_weights_via_ipc_zmq");
}
StatusOr<PendingList> GenerationInterface::update_weights_from_collective(std::optional<double>) {
  return unsupported("update_weights_from_collective");
}
Status GenerationInterface::prepare_nccl_reshard_refit_info(const nlohmann::json&) {
  return unsupported("prepare_nccl_reshard_refit_info",
                     "policy.generation.refit_transport=nccl_reshard");
}
StatusOr<PendingList> GenerationInterface::nccl_reshard_refit(std::optional<double>) {
  return unsupported("nccl_reshard_refit", "policy.generation.refit_transport=nccl_reshard");
}
Status GenerationInterface::set_rollout_weight_version(WeightVersion) {
  return unsupported("set_rollout_weight_version");
}
StatusOr<std::optional<MediaColumnSpec>> GenerationInterface::setup_token_capture(
    const nlohmann::json&, const std::string&, bool) {
  return unsupported("setup_token_capture", "token_capture.enabled=true");
}

// The members with a default.

void GenerationInterface::log_shard_gpu_state(int32_t, std::string_view,
                                              std::chrono::duration<double>) {}
StatusOr<CollectiveSenderSpec> GenerationInterface::get_collective_sender_spec() {
  return CollectiveSenderSpec{};
}
StatusOr<std::optional<int32_t>> GenerationInterface::get_inference_world_size() {
  return std::optional<int32_t>();
}
bool GenerationInterface::requires_kv_scale_sync() const { return false; }
StatusOr<bool> GenerationInterface::invalidate_kv_cache() { return false; }
StatusOr<bool> GenerationInterface::pause_generation_for_refit(
    bool, std::optional<std::chrono::duration<double>>) {
  warn_unsupported_in_flight_refit_pause_once(class_name_, log_);
  return false;
}
StatusOr<bool> GenerationInterface::resume_generation_after_refit(
    std::optional<std::chrono::duration<double>>) {
  warn_unsupported_in_flight_refit_pause_once(class_name_, log_);
  return false;
}
bool GenerationInterface::blocks_training() const { return false; }
bool GenerationInterface::wake_carries_weight_updates() const { return false; }
void GenerationInterface::clear_logger_metrics() {}
LoggerMetrics GenerationInterface::get_logger_metrics() { return {}; }
void GenerationInterface::snapshot_step_metrics() {}
StepMetrics GenerationInterface::get_step_metrics() { return {}; }
LoggerMetrics GenerationInterface::drain_latest_logger_metrics() { return {}; }

}  // namespace rlgen
