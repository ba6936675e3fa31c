#include "backends/local/local_shard.h"

#include <fmt/format.h>

#include <utility>

#include "engine/weights/read_back.h"

namespace rlgen::backends {

LocalShard::LocalShard(ShardInfo info, std::shared_ptr<SharedWeights> weights)
    : info_(std::move(info)), weights_(std::move(weights)) {}

LocalShard::~LocalShard() { shutdown().IgnoreError(); }

Status LocalShard::start_engine(const engine::EngineOptions& options, engine::EngineParts parts) {
  RLGEN_ASSIGN_OR_RETURN(engine_, engine::Engine::create(options, std::move(parts)));
  return weights_->join(engine_.get());
}

Status LocalShard::begin(const UpdateSpec& spec) { return weights_->begin(spec); }

Status LocalShard::write(std::string_view update_id, std::string_view name, size_t offset,
                         std::span<const std::byte> bytes) {
  return weights_->write(update_id, name, offset, bytes);
}

Status LocalShard::prepare(std::string_view update_id) { return weights_->prepare(update_id); }
Status LocalShard::commit(std::string_view update_id) { return weights_->commit(update_id); }
Status LocalShard::abort(std::string_view update_id) { return weights_->abort(update_id); }

std::optional<UpdateReport> LocalShard::last_report() const { return weights_->last_report(); }

Status LocalShard::submit(std::vector<SequenceRequest> requests) {
  return engine_->submit(std::move(requests));
}

Status LocalShard::cancel(std::span<const SequenceId> ids) { return engine_->cancel(ids); }
Status LocalShard::pause(PauseMode mode) { return engine_->pause(mode); }
Status LocalShard::resume() { return engine_->resume(); }

Status LocalShard::clear_kv_cache() { return engine_->clear_kv(); }
Status LocalShard::sleep(SleepLevel level, MemoryTags tags) {
  return weights_->sleep(engine_.get(), level, tags);
}

Status LocalShard::wake(MemoryTags tags) { return weights_->wake(engine_.get(), tags); }
Status LocalShard::set_version(WeightVersion version) { return weights_->relabel(version); }

StatusOr<std::vector<ManifestEntry>> LocalShard::served_checksums() {
  RLGEN_ASSIGN_OR_RETURN(const auto served, weights_->store().served());
  return engine::served_checksums(*served.weights, served.manifest);
}

StatusOr<TensorBytes> LocalShard::read_tensor(std::string_view name) {
  RLGEN_ASSIGN_OR_RETURN(const auto served, weights_->store().served());
  for (const ManifestEntry& entry : served.manifest) {
    if (entry.name != name) continue;
    RLGEN_ASSIGN_OR_RETURN(auto bytes, engine::read_tensor(*served.weights, name, entry.dtype));
    return TensorBytes{entry, std::move(bytes)};
  }
  return absl::NotFoundError(fmt::format("tensor {}: the model has none of that name", name));
}

StatusOr<ShardInfo> LocalShard::info() {
  ShardInfo info = info_;
  info.open_update = weights_->store().open_update();
  const auto label = weights_->store().label();
  info.version = label.version;
  info.serial = label.serial;
  info.weight_store = weights_->name();
  if (engine_) info.asleep = weights_->asleep(engine_.get());
  return info;
}

ShardCapabilities LocalShard::capabilities() {
  return {
      .exact_score = true,
      .continue_sequence = true,
      .weight_updates = true,
      .logprobs_modes = {LogprobsMode::kRaw, LogprobsMode::kTempered, LogprobsMode::kProcessed}};
}

ShardHealth LocalShard::health() { return engine_->health(); }
ShardMetrics LocalShard::metrics() { return engine_->metrics(); }

Status LocalShard::shutdown() {
  if (!engine_) return absl::OkStatus();
  engine_->shutdown();
  weights_->leave(engine_.get());
  return absl::OkStatus();
}

}  // namespace rlgen::backends
