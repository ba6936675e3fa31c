#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "contract/pause_mode.h"
#include "contract/shard.h"
#include "generation/fake_store.h"

namespace rlgen::generation {

// What a scripted shard does and what was asked of it. For unit tests of this module.
struct FakeShardState {
  ShardInfo info;
  // The events of a new request, sent from the shard's thread; empty: the request stays in flight.
  std::function<EventBatch(const SequenceRequest& request)> script;
  Status submit_status;
  FakeStore store;
  std::function<void()> on_metrics;  // called before metrics are read; may be empty
  // Answers pause (the mode's name), resume and clear; empty: OK. Called on the caller's thread.
  std::function<Status(std::string_view what)> control;

  std::mutex mutex;
  std::vector<SequenceRequest> requests;                       // guarded by mutex
  std::vector<SequenceId> cancelled;                           // guarded by mutex
  ShardHealth health{.serving = true};                         // guarded by mutex
  ShardMetrics metrics{.running = 1, .generated_tokens = 10};  // guarded by mutex
  bool computes = true;                                        // false: its progress stands still

  std::vector<std::string> controls;  // guarded by mutex: what was asked, in order

  Status on_control(std::string_view what) {
    {
      const std::lock_guard lock(mutex);
      controls.emplace_back(what);
    }
    return control ? control(what) : absl::OkStatus();
  }

  std::vector<SequenceRequest> seen() {
    const std::lock_guard lock(mutex);
    return requests;
  }
};

// Sends what the script says, one batch a request, and "abort" for what is cancelled.
class FakeShard final : public ShardClient {
 public:
  FakeShard(std::shared_ptr<FakeShardState> state, EventSink& sink)
      : state_(std::move(state)), sink_(sink), thread_([this] { loop(); }) {}
  ~FakeShard() override { shutdown().IgnoreError(); }

  Status submit(std::vector<SequenceRequest> requests) override {
    if (!state_->submit_status.ok()) return state_->submit_status;
    const std::lock_guard lock(state_->mutex);
    for (SequenceRequest& request : requests) {
      state_->requests.push_back(request);
      open_.insert(request.id);
      queue_.push_back([this, request = std::move(request)] {
        return state_->script ? state_->script(request) : EventBatch{};
      });
    }
    wake_.notify_one();
    return absl::OkStatus();
  }

  Status cancel(std::span<const SequenceId> ids) override {
    const std::lock_guard lock(state_->mutex);
    for (const SequenceId id : ids) {
      state_->cancelled.push_back(id);
      queue_.push_back([id] { return abort_of(id); });
    }
    wake_.notify_one();
    return absl::OkStatus();
  }

  StatusOr<ShardInfo> info() override {
    ShardInfo info = state_->info;
    info.version = state_->store.version();
    info.serial = state_->store.serial();
    info.open_update = state_->store.open_update();
    return info;
  }
  ShardCapabilities capabilities() override { return {}; }
  ShardHealth health() override {
    const std::lock_guard lock(state_->mutex);
    if (state_->computes) ++state_->health.progress;
    return state_->health;
  }
  ShardMetrics metrics() override {
    if (state_->on_metrics) state_->on_metrics();
    const std::lock_guard lock(state_->mutex);
    return state_->metrics;
  }

  Status shutdown() override {
    {
      const std::lock_guard lock(state_->mutex);
      if (stop_) return absl::OkStatus();
      stop_ = true;
      wake_.notify_one();
    }
    thread_.join();
    EventBatch last;
    for (const SequenceId id : open_) last.push_back(abort_of(id)[0]);
    if (!last.empty()) sink_.on_events(std::move(last));
    return absl::OkStatus();
  }

  Status pause(PauseMode mode) override { return state_->on_control(pause_mode_name(mode)); }
  Status resume() override { return state_->on_control("resume"); }
  Status clear_kv_cache() override { return state_->on_control("clear"); }

  Status sleep(SleepLevel level, MemoryTags) override {
    return state_->on_control(level == SleepLevel::kKeep ? "sleep" : "deep sleep");
  }
  Status wake(MemoryTags) override { return state_->on_control("wake"); }
  Status set_version(WeightVersion version) override { return state_->store.rename(version); }
  StatusOr<std::vector<ManifestEntry>> served_checksums() override {
    return state_->store.checksums();
  }
  StatusOr<TensorBytes> read_tensor(std::string_view name) override {
    return state_->store.read(name);
  }
  Status begin(const UpdateSpec& spec) override { return state_->store.begin(spec); }
  Status write(std::string_view id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override {
    return state_->store.write(id, name, offset, bytes);
  }
  Status prepare(std::string_view id) override { return state_->store.prepare(id); }
  Status commit(std::string_view id) override { return state_->store.commit(id); }
  Status abort(std::string_view id) override { return state_->store.abort(id); }

 private:
  static EventBatch abort_of(SequenceId id) {
    return {{.id = id, .finish = Finish{.reason = FinishReason::kAbort}}};
  }

  void loop() {
    std::unique_lock lock(state_->mutex);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      const auto work = std::move(queue_.front());
      queue_.erase(queue_.begin());
      lock.unlock();
      EventBatch events = work();
      std::vector<SequenceId> finished;
      for (const SequenceEvent& event : events) {
        if (event.finish) finished.push_back(event.id);
      }
      if (!events.empty()) sink_.on_events(std::move(events));
      lock.lock();
      for (const SequenceId id : finished) open_.erase(id);
    }
  }

  std::shared_ptr<FakeShardState> state_;
  EventSink& sink_;
  std::condition_variable wake_;
  std::vector<std::function<EventBatch()>> queue_;  // guarded by the state's mutex
  std::set<SequenceId> open_;                       // guarded by the state's mutex
  bool stop_ = false;                               // guarded by the state's mutex
  std::thread thread_;
};

class FakeLauncher final : public ShardLauncher {
 public:
  explicit FakeLauncher(std::vector<std::shared_ptr<FakeShardState>> states)
      : states_(std::move(states)) {}
  StatusOr<std::unique_ptr<ShardClient>> start(const ShardSpec&, EventSink& sink) override {
    return std::unique_ptr<ShardClient>(std::make_unique<FakeShard>(states_.at(started_++), sink));
  }

 private:
  std::vector<std::shared_ptr<FakeShardState>> states_;
  size_t started_ = 0;
};

}  // namespace rlgen::generation
