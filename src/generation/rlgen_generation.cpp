#include "generation/rlgen_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "contract/pause_mode.h"
#include "contract/refit_deadline.h"
#include "generation/shard_setup.h"

namespace rlgen::generation {
namespace {

using nlohmann::json;
using Base = GenerationInterface;
using PendingList = std::vector<PendingStatus>;

constexpr char kClassName[] = "RlgenGeneration";
constexpr double kLongestPause = 1e9;  // seconds

// The value at a dotted key; null where it is not there.
json value_at_key(const json& config, std::string_view dotted) {
  const json* at = &config;
  while (!dotted.empty()) {
    const size_t dot = dotted.find('.');
    const std::string name(dotted.substr(0, dot));
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
    dotted = dot == std::string_view::npos ? std::string_view() : dotted.substr(dot + 1);
  }
  return *at;
}

StatusOr<std::chrono::milliseconds> pause_limit(
    std::optional<std::chrono::duration<double>> timeout) {
  if (!timeout) return kPauseBudget;
  const double seconds = timeout->count();
  if (!(seconds > 0.0 && std::isfinite(seconds))) {
    return absl::InvalidArgumentError(
        fmt::format("the timeout is {} s; leave it out or give a finite time above 0", seconds));
  }
  return std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(std::min(seconds, kLongestPause) * 1000.0)));
}

}  // namespace

RlgenGeneration::RlgenGeneration(GenerationConfig config, IpcWeights ipc, LogSink log)
    : GenerationInterface(kClassName, std::move(log)),
      config_(std::move(config)),
      ipc_(std::move(ipc)) {}

StatusOr<std::unique_ptr<RlgenGeneration>> RlgenGeneration::start(GenerationConfig config,
                                                                  RlgenGenerationParts parts) {
  const LogSink log = parts.options.log;
  parts.options.stall_timeout = config.rlgen_cfg.stall_timeout;
  auto generation =
      Generation::start(*parts.launcher, shard_specs(config), std::move(parts.options));
  if (!generation.ok()) return in_config_words(generation.status());
  const TokenizerFacts checkpoint{.pad_token_id = parts.pad_token_id,
                                  .eos_token_ids = (*generation)->info().eos_token_ids};
  finalize_generation_config(parts.tokenizer.value_or(checkpoint), log, &config);

  std::unique_ptr<RlgenGeneration> made(
      new RlgenGeneration(std::move(config), std::move(parts.ipc), log));
  made->generation_ = *std::move(generation);
  made->metrics_ = std::make_unique<MetricsSampler>(
      [generation = made->generation_] { return generation->shard_metrics(); }, log);
  return made;
}

RlgenGeneration::~RlgenGeneration() {
  const Status status = shutdown();
  if (!status.ok()) write_log(log(), LogLevel::kWarning, status.ToString());
}

Status RlgenGeneration::validate_settings(const json& master_config) {
  RLGEN_ASSIGN_OR_RETURN(const GenerationConfig config,
                         read_generation_config(value_at_key(master_config, "policy.generation")));
  const json replay = value_at_key(master_config, kRouterReplaySetting);
  if (!replay.is_null() && replay != false &&
      !config.rlgen_cfg.shard.enable_return_routed_experts) {
    return absl::InvalidArgumentError(
        fmt::format("{} needs the routes of the rollouts; set "
                    "policy.generation.rlgen_cfg.enable_return_routed_experts to true",
                    kRouterReplaySetting));
  }
  for (const std::string_view key : kRefusedSettings) {
    const json value = value_at_key(master_config, key);
    if (value.is_null() || value == false) continue;
    return absl::UnimplementedError(
        fmt::format("{} does not support {}={}; set it to false", kClassName, key, value.dump()));
  }
  return absl::OkStatus();
}

// --- generating ---

StatusOr<GenerationOutputSpec> RlgenGeneration::generate(const GenerationDatumSpec& data,
                                                         bool greedy) {
  return generate(data, DatumSampling{.greedy = greedy, .params = std::nullopt});
}

StatusOr<GenerationOutputSpec> RlgenGeneration::generate(const GenerationDatumSpec& data,
                                                         const DatumSampling& sampling) {
  return generate_batch(*generation_, data, config_, sampling);
}

Status RlgenGeneration::prepare_for_generation(std::span<const std::string> tags) {
  const auto asks_for = [&tags](std::string_view tag) {
    return tags.empty() || std::find(tags.begin(), tags.end(), tag) != tags.end();
  };
  return generation_->wake({asks_for("weights"), asks_for("kv_cache")});
}

Status RlgenGeneration::finish_generation(bool release_gpu) {
  if (!release_gpu || !config_.colocated.enabled) return absl::OkStatus();
  return generation_->sleep(SleepLevel::kKeep);
}

Status RlgenGeneration::shutdown() {
  metrics_->stop();
  return generation_->shutdown();
}

Status RlgenGeneration::pause_generation(std::string_view mode) {
  RLGEN_ASSIGN_OR_RETURN(const PauseMode parsed, parse_pause_mode(mode));
  return generation_->pause(parsed);
}

Status RlgenGeneration::continue_generation() { return generation_->resume(); }

StatusOr<bool> RlgenGeneration::pause_generation_for_refit(
    bool clear_cache, std::optional<std::chrono::duration<double>> timeout) {
  RLGEN_ASSIGN_OR_RETURN(const auto limit, pause_limit(timeout));
  RLGEN_RETURN_IF_ERROR(generation_->pause(PauseMode::kKeep, {clear_cache, limit}));
  return true;
}

StatusOr<bool> RlgenGeneration::resume_generation_after_refit(
    std::optional<std::chrono::duration<double>> timeout) {
  RLGEN_ASSIGN_OR_RETURN(const auto limit, pause_limit(timeout));
  RLGEN_RETURN_IF_ERROR(generation_->resume(limit));
  return true;
}

// --- shards ---

StatusOr<PendingStatus> RlgenGeneration::shard_liveness_ref(int32_t shard_idx) {
  RLGEN_RETURN_IF_ERROR(generation_->check_shard(shard_idx));
  const auto ask = [generation = generation_, shard_idx]() -> Status {
    RLGEN_ASSIGN_OR_RETURN(const ShardHealth health, generation->shard_health(shard_idx));
    if (health.serving) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("shard {} does not serve", shard_idx));
  };
  return PendingStatus(std::async(std::launch::async, ask));
}

// --- weights ---

StatusOr<std::optional<std::vector<std::string>>> RlgenGeneration::prepare_refit_info(
    const std::optional<std::vector<ManifestEntry>>& state_dict_info) {
  const std::lock_guard lock(mutex_);
  manifest_ = state_dict_info;
  return std::optional<std::vector<std::string>>();
}

StatusOr<PendingList> RlgenGeneration::update_weights_via_ipc_zmq() {
  UpdateSpec spec;
  spec.kv_policy = generation_->paused() ? KvPolicy::kKeep : KvPolicy::kRecompute;
  {
    const std::lock_guard lock(mutex_);
    if (!manifest_) {
      return absl::FailedPreconditionError(
          "nobody said which tensors will come: call prepare_refit_info first");
    }
    spec.manifest = *manifest_;
    spec.update_id = fmt::format("ipc {}", ++ipc_updates_);
  }
  if (!ipc_.receive) {
    return absl::FailedPreconditionError(
        "this backend was started without a place to receive weights at (IpcWeights)");
  }
  const auto take = [generation = generation_, receive = ipc_.receive, spec = std::move(spec)] {
    return receive(spec, generation->updates());
  };
  return PendingList{PendingStatus(std::async(std::launch::async, take))};
}

Status RlgenGeneration::set_rollout_weight_version(WeightVersion version) {
  return generation_->set_rollout_weight_version(version);
}

// --- what is not supported ---

StatusOr<PendingList> RlgenGeneration::init_collective(const std::string& ip, int32_t port,
                                                       int32_t world_size,
                                                       int32_t train_world_size) {
  return Base::init_collective(ip, port, world_size, train_world_size);
}

StatusOr<PendingList> RlgenGeneration::update_weights_from_collective(
    std::optional<double> refit_timeout_s) {
  RLGEN_RETURN_IF_ERROR(reject_unenforceable_refit_deadline(kClassName, refit_timeout_s));
  return Base::update_weights_from_collective(refit_timeout_s);
}

Status RlgenGeneration::prepare_nccl_reshard_refit_info(const json& refit_info) {
  return Base::prepare_nccl_reshard_refit_info(refit_info);
}

StatusOr<PendingList> RlgenGeneration::nccl_reshard_refit(std::optional<double> refit_timeout_s) {
  RLGEN_RETURN_IF_ERROR(reject_unenforceable_refit_deadline(kClassName, refit_timeout_s));
  return Base::nccl_reshard_refit(refit_timeout_s);
}

Status RlgenGeneration::attach_fleet_health(GenerationFleetHealth* monitor,
                                            HealthyShardSelector* selector) {
  return Base::attach_fleet_health(monitor, selector);
}

StatusOr<std::optional<std::string>> RlgenGeneration::restart_shard(int32_t shard_idx) {
  return Base::restart_shard(shard_idx);
}

StatusOr<std::optional<MediaColumnSpec>> RlgenGeneration::setup_token_capture(
    const json& dp_cfg, const std::string& staging_partition, bool capture_media) {
  return Base::setup_token_capture(dp_cfg, staging_partition, capture_media);
}

}  // namespace rlgen::generation
