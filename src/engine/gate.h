#pragma once

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "contract/shard.h"
#include "engine/schedule/scheduler.h"

namespace rlgen::engine {

// Answers one waiting caller, once.
using Reply = std::shared_ptr<std::promise<Status>>;

// A set of weights that waits for the sequences that began under the old one.
struct PendingFlip {
  std::shared_ptr<const models::WeightSet> weights;
  Reply reply;
};

// Whether steps run and who may be admitted: pause mode, sleep and waiting updates. Only the
// engine's thread. While asleep, or paused with keep, abort or retract, nothing runs; with wait, or
// with an update that waits, only what has started does.
struct Gate {
  std::optional<PauseMode> paused;
  std::vector<Reply> waiting_pauses;  // callers of pause(kWait)
  std::vector<PendingFlip> waiting_flips;
  std::vector<Reply> waiting_drains;  // callers of drain
  bool drained = false;               // nothing starts until release
  MemoryTags asleep{false, false};

  bool sleeps() const { return asleep.weights || asleep.kv_cache; }
  bool frozen() const { return sleeps() || (paused && *paused != PauseMode::kWait); }
  bool waits() const {
    return !waiting_pauses.empty() || !waiting_flips.empty() || !waiting_drains.empty();
  }
  Admission admission() const {
    if (frozen()) return Admission::kNone;
    return paused || drained || waits() ? Admission::kStarted : Admission::kAll;
  }
};

}  // namespace rlgen::engine
