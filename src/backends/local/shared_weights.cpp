#include "backends/local/shared_weights.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

namespace rlgen::backends {
namespace {

std::string next_name() {
  static std::atomic<uint64_t> made{0};
  return fmt::format("{}-{}", ::getpid(), ++made);
}

// Calls all at once: each may wait for a step, or for its running sequences.
template <typename Call>
Status on_all(const std::vector<engine::Engine*>& engines, const Call& call) {
  if (engines.size() == 1) return call(*engines[0]);
  std::vector<std::future<Status>> answers;
  for (engine::Engine* engine : engines) {
    answers.push_back(std::async(std::launch::async, [&call, engine] { return call(*engine); }));
  }
  Status first;
  for (auto& answer : answers) {
    const Status status = answer.get();
    if (first.ok()) first = status;
  }
  return first;
}

// An engine that is shut down serves nobody.
Status unless_gone(Status status) {
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

}  // namespace

SharedWeights::SharedWeights(std::shared_ptr<const models::NameTable> table,
                             std::unique_ptr<Clock> clock, std::string spill_folder)
    : clock_(std::move(clock)),
      name_(next_name()),
      store_(std::move(table),
             {.clock = clock_.get(),
              .flip = [this](Weights weights, KvPolicy policy) { return flip(weights, policy); },
              .spill_folder = std::move(spill_folder)}) {}

SharedWeights::User* SharedWeights::find(const engine::Engine* engine) {
  const auto found = std::find_if(users_.begin(), users_.end(),
                                  [&](const User& user) { return user.engine == engine; });
  return found == users_.end() ? nullptr : &*found;
}

Status SharedWeights::join(engine::Engine* engine) {
  const std::lock_guard operation(operation_);
  RLGEN_RETURN_IF_ERROR(store_.wake());
  RLGEN_ASSIGN_OR_RETURN(const auto served, store_.served());
  RLGEN_RETURN_IF_ERROR(engine->set_weights(served.weights, KvPolicy::kRecompute));
  const std::lock_guard lock(mutex_);
  users_.push_back({engine, {false, false}});
  return absl::OkStatus();
}

void SharedWeights::leave(const engine::Engine* engine) {
  const std::lock_guard operation(operation_);
  const std::lock_guard lock(mutex_);
  std::erase_if(users_, [&](const User& user) { return user.engine == engine; });
}

Status SharedWeights::commit(std::string_view update_id) {
  const std::lock_guard operation(operation_);
  return store_.commit(update_id);
}

Status SharedWeights::relabel(WeightVersion version) {
  const std::lock_guard operation(operation_);
  return store_.relabel(version);
}

// With operation_ held. Engines whose weights sleep take the new ones when they wake.
Status SharedWeights::flip(const Weights& weights, KvPolicy policy) {
  std::vector<engine::Engine*> engines;
  for (const User& user : users_) {
    if (!user.asleep.weights) engines.push_back(user.engine);
  }
  if (engines.empty()) return absl::OkStatus();
  if (policy == KvPolicy::kWait && engines.size() > 1) return flip_together(engines, weights);
  return on_all(engines, [&](engine::Engine& engine) {
    return unless_gone(engine.set_weights(weights, policy));
  });
}

// None serves the new weights before all have finished with the old ones, so none is left behind
// when another one cannot.
Status SharedWeights::flip_together(const std::vector<engine::Engine*>& engines,
                                    const Weights& weights) {
  Status done = on_all(engines, [](engine::Engine& engine) { return unless_gone(engine.drain()); });
  if (done.ok()) {
    done = on_all(engines, [&](engine::Engine& engine) {
      return unless_gone(engine.set_weights(weights, KvPolicy::kRecompute));
    });
  }
  const Status released =
      on_all(engines, [](engine::Engine& engine) { return unless_gone(engine.release()); });
  return done.ok() ? released : done;
}

Status SharedWeights::sleep(engine::Engine* engine, SleepLevel level, MemoryTags tags) {
  const std::lock_guard operation(operation_);
  User* const user = find(engine);
  if (user == nullptr) return absl::UnavailableError("the shard is shut down");
  const auto open = store_.open_update();
  if (tags.weights && open) {
    return absl::FailedPreconditionError(fmt::format(
        "the weights cannot sleep while update {} is open; commit or abort it", open->update_id));
  }
  RLGEN_RETURN_IF_ERROR(engine->sleep(tags));
  {
    const std::lock_guard lock(mutex_);
    user->asleep.weights |= tags.weights;
    user->asleep.kv_cache |= tags.kv_cache;
  }
  const bool all =
      std::all_of(users_.begin(), users_.end(), [](const User& one) { return one.asleep.weights; });
  if (!tags.weights || !all) return absl::OkStatus();
  return store_.stand_down(level == SleepLevel::kKeep);
}

Status SharedWeights::wake(engine::Engine* engine, MemoryTags tags) {
  const std::lock_guard operation(operation_);
  User* const user = find(engine);
  if (user == nullptr) return absl::UnavailableError("the shard is shut down");
  if (tags.weights && user->asleep.weights) RLGEN_RETURN_IF_ERROR(store_.wake());
  RLGEN_RETURN_IF_ERROR(engine->wake(tags, tags.weights ? store_.current() : nullptr));
  const std::lock_guard lock(mutex_);
  if (tags.weights) user->asleep.weights = false;
  if (tags.kv_cache) user->asleep.kv_cache = false;
  return absl::OkStatus();
}

MemoryTags SharedWeights::asleep(const engine::Engine* engine) const {
  const std::lock_guard lock(mutex_);
  for (const User& user : users_) {
    if (user.engine == engine) return user.asleep;
  }
  return {false, false};
}

}  // namespace rlgen::backends
