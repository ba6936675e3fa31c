#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "generation/generation.h"
#include "generation/update_recovery.h"

// The part of Generation that pauses shards and changes their weights.
namespace rlgen::generation {

void Generation::start_updates(const std::vector<ShardInfo>& infos) {
  std::vector<UpdateParticipant> participants;
  std::vector<RecoveringShard> recovering;
  std::vector<std::string> stores;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const auto known = std::find(stores.begin(), stores.end(), infos[i].weight_store);
    if (known != stores.end() && !infos[i].weight_store.empty()) {
      participants_.push_back(size_t(known - stores.begin()));
      continue;
    }
    participants_.push_back(participants.size());
    stores.push_back(infos[i].weight_store);
    participants.push_back({fmt::format("shard {}", i), shards_[i].client.get()});
    recovering.push_back({.sink = shards_[i].client.get(),
                          .version = infos[i].version,
                          .serial = infos[i].serial,
                          .open_update = infos[i].open_update});
  }
  const Recovery found = recover_updates(recovering);
  updates_ = std::make_unique<UpdateCoordinator>(std::move(participants),
                                                 CoordinatorOptions{.clock = options_.clock.get(),
                                                                    .note = options_.note_update,
                                                                    .served_version = found.version,
                                                                    .last_serial = found.serial,
                                                                    .log = options_.log});
  for (const size_t behind : found.behind) updates_->set_stale(behind);
}

bool Generation::is_current(size_t shard) const {
  return updates_->is_current(participants_[shard]);
}

// The first error of a current shard, or of any where none is OK. A shard that is not current may
// be gone; it does not hold up the others.
Status Generation::first_error(std::string_view what, const std::vector<Status>& results) const {
  Status first;
  size_t done = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      ++done;
    } else if (first.ok() && is_current(i)) {
      first = annotate(results[i], fmt::format("{}: shard {}", what, i));
    }
  }
  return done == 0 && first.ok() ? annotate(results[0], fmt::format("{}: shard 0", what)) : first;
}

Status Generation::on_shards(std::string_view what, const FanOut::Task& task,
                             std::optional<std::chrono::milliseconds> timeout) {
  return first_error(what, fan_out_.run(shards_.size(), task, timeout));
}

Status Generation::pause(PauseMode mode, PauseOptions options) {
  bool before = false;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(paused_, true);
  }
  const auto pause_one = [this, mode, clear = options.clear_cache](size_t i) -> Status {
    ShardClient& shard = *shards_[i].client;
    RLGEN_RETURN_IF_ERROR(shard.pause(mode));
    return clear ? shard.clear_kv_cache() : absl::OkStatus();
  };
  const auto results = fan_out_.run(shards_.size(), pause_one, options.timeout);
  const Status status = first_error("pause", results);
  const bool settled = std::none_of(results.begin(), results.end(), [](const Status& result) {
    return absl::IsDeadlineExceeded(result) || absl::IsCancelled(result);
  });
  if (status.ok() || before || !settled) return status;
  const Status resumed = resume(options.timeout);
  if (resumed.ok()) return status;
  return annotate(status, fmt::format("some shards stay paused ({})", message_of(resumed)));
}

Status Generation::resume(std::chrono::milliseconds timeout) {
  const auto resume_one = [this](size_t i) { return shards_[i].client->resume(); };
  RLGEN_RETURN_IF_ERROR(on_shards("resume", resume_one, timeout));
  const std::lock_guard lock(mutex_);
  paused_ = false;
  return absl::OkStatus();
}

bool Generation::paused() const {
  const std::lock_guard lock(mutex_);
  return paused_;
}

Status Generation::sleep(SleepLevel level, MemoryTags tags) {
  MemoryTags before;
  {
    const std::lock_guard lock(mutex_);
    before = asleep_;
    asleep_.weights |= tags.weights;
    asleep_.kv_cache |= tags.kv_cache;
  }
  const auto sleep_one = [this, level, tags](size_t i) {
    return shards_[i].client->sleep(level, tags);
  };
  const Status slept = on_shards("sleep", sleep_one, std::nullopt);
  if (slept.ok()) return slept;
  const MemoryTags again{tags.weights && !before.weights, tags.kv_cache && !before.kv_cache};
  const auto wake_one = [this, again](size_t i) { return shards_[i].client->wake(again); };
  const Status woken = on_shards("wake", wake_one, std::nullopt);
  if (!woken.ok()) {
    return annotate(slept, fmt::format("some shards stay asleep ({})", message_of(woken)));
  }
  const std::lock_guard lock(mutex_);
  asleep_ = before;
  return slept;
}

Status Generation::wake(MemoryTags tags) {
  {
    const std::lock_guard lock(mutex_);
    tags.weights = tags.weights && asleep_.weights;
    tags.kv_cache = tags.kv_cache && asleep_.kv_cache;
  }
  if (!tags.weights && !tags.kv_cache) return absl::OkStatus();
  const auto wake_one = [this, tags](size_t i) { return shards_[i].client->wake(tags); };
  RLGEN_RETURN_IF_ERROR(on_shards("wake", wake_one, std::nullopt));
  const std::lock_guard lock(mutex_);
  if (tags.weights) asleep_.weights = false;
  if (tags.kv_cache) asleep_.kv_cache = false;
  return absl::OkStatus();
}

MemoryTags Generation::asleep() const {
  const std::lock_guard lock(mutex_);
  return asleep_;
}

Status Generation::set_rollout_weight_version(WeightVersion version) {
  return updates_->relabel(version, [this, version](size_t participant) {
    const auto shard = std::find(participants_.begin(), participants_.end(), participant);
    return shards_[size_t(shard - participants_.begin())].client->set_version(version);
  });
}

StatusOr<ServedWeights> Generation::served_weights() {
  ServedWeights served{.version = updates_->version(),
                       .serial = updates_->serial(),
                       .open_update = updates_->open_update(),
                       .shards = {}};
  for (size_t i = 0; i < shards_.size(); ++i) {
    RLGEN_ASSIGN_OR_RETURN(const ShardInfo info, shards_[i].client->info());
    served.shards.push_back({info.version, info.serial, is_current(i)});
  }
  return served;
}

StatusOr<std::vector<ManifestEntry>> Generation::served_checksums() {
  std::optional<std::vector<ManifestEntry>> all;
  size_t first = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const bool shares = std::find(participants_.begin(), participants_.begin() + ptrdiff_t(i),
                                  participants_[i]) != participants_.begin() + ptrdiff_t(i);
    if (shares || !is_current(i)) continue;
    RLGEN_ASSIGN_OR_RETURN(auto entries, shards_[i].client->served_checksums());
    if (!all) {
      all = std::move(entries);
      first = i;
      continue;
    }
    if (entries.size() != all->size()) {
      return absl::DataLossError(fmt::format("shard {} serves {} tensors and shard {} serves {}",
                                             first, all->size(), i, entries.size()));
    }
    for (size_t k = 0; k < entries.size(); ++k) {
      const ManifestEntry& one = (*all)[k];
      if (entries[k].name == one.name && entries[k].digest == one.digest) continue;
      return absl::DataLossError(
          fmt::format("tensor {}: shard {} serves {} and shard {} serves {} with digest {}",
                      one.name, first, one.digest, i, entries[k].name, entries[k].digest));
    }
  }
  if (all) return *std::move(all);
  return absl::UnavailableError("no shard serves the weights that were decided last");
}

StatusOr<TensorBytes> Generation::read_tensor(std::string_view name) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (is_current(i)) return shards_[i].client->read_tensor(name);
  }
  return absl::UnavailableError("no shard serves the weights that were decided last");
}

bool Generation::invalidate_kv_cache() {
  const auto clear = [this](size_t i) { return shards_[i].client->clear_kv_cache(); };
  const Status status = on_shards("invalidate_kv_cache", clear, kPauseTimeout);
  if (!status.ok()) write_log(options_.log, LogLevel::kWarning, status.ToString());
  return status.ok();
}

}  // namespace rlgen::generation
