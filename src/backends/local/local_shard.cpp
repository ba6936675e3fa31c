#include "backends/local/local_shard.h"

#include <fmt/format.h>

#include <utility>

#include "engine/weights/read_back.h"

namespace rlgen::backends {

LocalShard::LocalShard(ShardInfo info, std::shared_ptr<const models::NameTable> table,
                       std::unique_ptr<Clock> clock)
    : info_(std::move(info)),
      clock_(std::move(clock)),
      store_(std::move(table),
             {.clock = clock_.get(),
              .flip = [this](std::shared_ptr<const models::WeightSet> weights, KvPolicy policy) {
                return engine_ ? engine_->set_weights(std::move(weights), policy)
                               : absl::OkStatus();
              }}) {}

LocalShard::~LocalShard() {
  if (engine_) engine_->shutdown();
}

Status LocalShard::start_engine(const engine::EngineOptions& options, engine::EngineParts parts) {
  RLGEN_ASSIGN_OR_RETURN(auto engine, engine::Engine::create(options, std::move(parts)));
  RLGEN_RETURN_IF_ERROR(engine->set_weights(store_.current(), KvPolicy::kRecompute));
  engine_ = std::move(engine);
  return absl::OkStatus();
}

Status LocalShard::begin(const UpdateSpec& spec) { return store_.begin(spec); }

Status LocalShard::write(std::string_view update_id, std::string_view name, size_t offset,
                         std::span<const std::byte> bytes) {
  return store_.write(update_id, name, offset, bytes);
}

Status LocalShard::prepare(std::string_view update_id) { return store_.prepare(update_id); }
Status LocalShard::commit(std::string_view update_id) { return store_.commit(update_id); }
Status LocalShard::abort(std::string_view update_id) { return store_.abort(update_id); }

Status LocalShard::submit(std::vector<SequenceRequest> requests) {
  return engine_->submit(std::move(requests));
}

Status LocalShard::cancel(std::span<const SequenceId> ids) { return engine_->cancel(ids); }
Status LocalShard::pause(PauseMode mode) { return engine_->pause(mode); }
Status LocalShard::resume() { return engine_->resume(); }

Status LocalShard::clear_kv_cache() { return engine_->clear_kv(); }
Status LocalShard::set_version(WeightVersion version) { return store_.relabel(version); }

StatusOr<std::vector<ManifestEntry>> LocalShard::served_checksums() {
  RLGEN_ASSIGN_OR_RETURN(const auto served, store_.served());
  return engine::served_checksums(*served.weights, served.manifest);
}

StatusOr<TensorBytes> LocalShard::read_tensor(std::string_view name) {
  RLGEN_ASSIGN_OR_RETURN(const auto served, store_.served());
  for (const ManifestEntry& entry : served.manifest) {
    if (entry.name != name) continue;
    RLGEN_ASSIGN_OR_RETURN(auto bytes, engine::read_tensor(*served.weights, name, entry.dtype));
    return TensorBytes{entry, std::move(bytes)};
  }
  return absl::NotFoundError(fmt::format("tensor {}: the model has none of that name", name));
}

StatusOr<ShardInfo> LocalShard::info() {
  ShardInfo info = info_;
  info.open_update = store_.open_update();
  if (const auto served = store_.current()) {
    info.version = served->version();
    info.serial = served->serial();
  }
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
  engine_->shutdown();
  return absl::OkStatus();
}

}  // namespace rlgen::backends
