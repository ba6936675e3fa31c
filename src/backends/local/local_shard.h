#pragma once

#include <memory>
#include <vector>

#include "backends/local/shared_weights.h"
#include "contract/shard.h"
#include "engine/engine.h"
#include "models/model.h"

namespace rlgen::backends {

// A shard in this process: one engine, and weights that it may share with others. Thread-safe, as
// ShardClient says.
class LocalShard final : public ShardClient {
 public:
  // A shard without an engine yet; `info` is what stays true of it.
  LocalShard(ShardInfo info, std::shared_ptr<SharedWeights> weights);
  ~LocalShard() override;

  // Starts the engine on the weights that are served. Once, after their first update and before the
  // shard is shared. Errors: Engine::create's.
  Status start_engine(const engine::EngineOptions& options, engine::EngineParts parts);

  Status begin(const UpdateSpec& spec) override;
  Status write(std::string_view update_id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override;
  Status prepare(std::string_view update_id) override;
  Status commit(std::string_view update_id) override;
  Status abort(std::string_view update_id) override;
  std::optional<UpdateReport> last_report() const override;

  Status submit(std::vector<SequenceRequest> requests) override;
  Status cancel(std::span<const SequenceId> ids) override;
  Status pause(PauseMode mode) override;
  Status resume() override;

  Status clear_kv_cache() override;
  Status sleep(SleepLevel level, MemoryTags tags) override;
  Status wake(MemoryTags tags) override;
  Status set_version(WeightVersion version) override;
  StatusOr<std::vector<ManifestEntry>> served_checksums() override;
  StatusOr<TensorBytes> read_tensor(std::string_view name) override;

  StatusOr<ShardInfo> info() override;
  ShardCapabilities capabilities() override;
  ShardHealth health() override;
  ShardMetrics metrics() override;
  Status shutdown() override;

 private:
  const ShardInfo info_;
  const std::shared_ptr<SharedWeights> weights_;
  std::unique_ptr<engine::Engine> engine_;  // set by start_engine
};

}  // namespace rlgen::backends
