#include <nlohmann/json.hpp>

#include "contract/generation_interface.h"

namespace rlgen {

using Base = GenerationInterface;

Status UnsupportedByDefault::pause_generation(std::string_view mode) {
  return Base::pause_generation(mode);
}
Status UnsupportedByDefault::continue_generation() { return Base::continue_generation(); }
StatusOr<std::optional<std::string>> UnsupportedByDefault::restart_shard(int32_t shard_idx) {
  return Base::restart_shard(shard_idx);
}
StatusOr<PendingStatus> UnsupportedByDefault::shard_liveness_ref(int32_t shard_idx) {
  return Base::shard_liveness_ref(shard_idx);
}
Status UnsupportedByDefault::attach_fleet_health(GenerationFleetHealth* monitor,
                                                 HealthyShardSelector* selector) {
  return Base::attach_fleet_health(monitor, selector);
}
StatusOr<std::optional<std::vector<std::string>>> UnsupportedByDefault::prepare_refit_info(
    const std::optional<std::vector<ManifestEntry>>& state_dict_info) {
  return Base::prepare_refit_info(state_dict_info);
}
StatusOr<std::vector<PendingStatus>> UnsupportedByDefault::update_weights_via_ipc_zmq() {
  return Base::update_weights_via_ipc_zmq();
}
StatusOr<std::vector<PendingStatus>> UnsupportedByDefault::update_weights_from_collective(
    std::optional<double> refit_timeout_s) {
  return Base::update_weights_from_collective(refit_timeout_s);
}
Status UnsupportedByDefault::prepare_nccl_reshard_refit_info(const nlohmann::json& refit_info) {
  return Base::prepare_nccl_reshard_refit_info(refit_info);
}
StatusOr<std::vector<PendingStatus>> UnsupportedByDefault::nccl_reshard_refit(
    std::optional<double> refit_timeout_s) {
  return Base::nccl_reshard_refit(refit_timeout_s);
}
Status UnsupportedByDefault::set_rollout_weight_version(WeightVersion version) {
  return Base::set_rollout_weight_version(version);
}
StatusOr<std::optional<MediaColumnSpec>> UnsupportedByDefault::setup_token_capture(
    const nlohmann::json& dp_cfg, const std::string& staging_partition, bool capture_media) {
  return Base::setup_token_capture(dp_cfg, staging_partition, capture_media);
}

}  // namespace rlgen
