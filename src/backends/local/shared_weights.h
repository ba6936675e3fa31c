#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "contract/shard.h"
#include "engine/engine.h"
#include "engine/weights/weight_store.h"

namespace rlgen::backends {

// The weights of this process for one model, and the engines that serve them: one packed copy, one
// spare one for the next update, one decision. Thread-safe. The engines must leave before they die.
class SharedWeights final : public WeightSink {
 public:
  SharedWeights(std::shared_ptr<const models::NameTable> table, std::unique_ptr<Clock> clock,
                std::string spill_folder);

  Status begin(const UpdateSpec& spec) override { return store_.begin(spec); }
  Status write(std::string_view update_id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override {
    return store_.write(update_id, name, offset, bytes);
  }
  Status prepare(std::string_view update_id) override { return store_.prepare(update_id); }
  Status commit(std::string_view update_id) override;
  Status abort(std::string_view update_id) override { return store_.abort(update_id); }
  std::optional<UpdateReport> last_report() const override { return store_.last_report(); }

  // WeightStore's.
  Status relabel(WeightVersion version);

  // To look at; what changes the weights goes through this object.
  const engine::WeightStore& store() const { return store_; }
  // ShardInfo::weight_store; no other object of this process has it.
  const std::string& name() const { return name_; }

  // The engine serves the store's weights from then on, through every update. Errors:
  // set_weights's.
  Status join(engine::Engine* engine);
  void leave(const engine::Engine* engine);

  // ShardClient's, for one of the engines. The weights leave memory when all of them sleep.
  Status sleep(engine::Engine* engine, SleepLevel level, MemoryTags tags);
  Status wake(engine::Engine* engine, MemoryTags tags);
  MemoryTags asleep(const engine::Engine* engine) const;

 private:
  struct User {
    engine::Engine* engine = nullptr;
    MemoryTags asleep{false, false};
  };
  using Weights = std::shared_ptr<const models::WeightSet>;

  Status flip(const Weights& weights, KvPolicy policy);
  Status flip_together(const std::vector<engine::Engine*>& engines, const Weights& weights);
  User* find(const engine::Engine* engine);

  const std::unique_ptr<Clock> clock_;
  const std::string name_;

  // One commit, relabel, join, leave, sleep or wake at a time: what waits for the store to come to
  // rest never keeps a flip waiting.
  std::mutex operation_;
  mutable std::mutex mutex_;  // leaf
  std::vector<User> users_;   // both mutexes to write, either to read

  engine::WeightStore store_;
};

}  // namespace rlgen::backends
