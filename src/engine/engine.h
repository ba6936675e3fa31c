#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "contract/shard.h"
#include "engine/core.h"
#include "engine/gate.h"
#include "engine/mailbox.h"

namespace rlgen::engine {

// The engine on a thread of its own. Thread-safe; the semantics are those of ShardClient. Events go
// to the sink of the parts, from the engine's thread, one batch per step. Without work the thread
// sleeps. A sequence that is scored ends with finish reason "stop" and nothing named.
class Engine final : private EventSink {
 public:
  // EngineCore::create's errors.
  static StatusOr<std::unique_ptr<Engine>> create(const EngineOptions& options, EngineParts parts);
  // Shuts down.
  ~Engine() override;

  // kInvalidArgument, with nothing queued, for an id that is in flight or comes twice; kUnavailable
  // after shutdown. Any other fault of a request ends that request by an event.
  Status submit(std::vector<SequenceRequest> requests);
  Status cancel(std::span<const SequenceId> ids);

  // abort ends every sequence, queued ones too. kWait returns when what has started is done;
  // kCancelled when resume comes first.
  Status pause(PauseMode mode);
  Status resume();

  // Serves `weights` from the next step on and returns when that holds. What running sequences do
  // follows `policy`; kAbort also ends those that ran and were put back, kWait waits for them too.
  // kFailedPrecondition for kWait while sequences that started are frozen by a pause, or when such
  // a pause comes while it waits. The set in force already is OK at once; under another version it
  // is named so from the next step on, whatever the policy.
  Status set_weights(std::shared_ptr<const models::WeightSet> weights, KvPolicy policy);

  // Drops all KV, that of running sequences too.
  Status clear_kv();

  // Admission closes, and it returns when what has started is done; nothing starts until release.
  // Several engines can so change weights together. Errors: those of set_weights with kWait.
  Status drain();
  Status release();

  // ShardClient's. Weights are only let go of, and taken at waking: `weights` are served from then
  // on (null: none, and nothing runs until set_weights).
  Status sleep(MemoryTags tags);
  Status wake(MemoryTags tags, std::shared_ptr<const models::WeightSet> weights);

  ShardHealth health() const;
  ShardMetrics metrics() const;

  // Ends every sequence with "abort", answers every waiting caller with kUnavailable and stops the
  // thread. Not from the sink.
  void shutdown();

 private:
  explicit Engine(EventSink* sink) : sink_(sink) {}

  void run();
  void run_commands();
  bool can_step() const;
  void settle();
  void publish();
  // After the events and numbers of what the answer is about.
  void answer(const Reply& reply, Status status);
  void stop_all();
  Status call(std::function<void(Reply)> command);
  void on_events(EventBatch events) override;

  void do_pause(PauseMode mode, Reply reply);
  void do_resume();
  void do_set_weights(std::shared_ptr<const models::WeightSet> weights, KvPolicy policy,
                      Reply reply);
  void freeze(PauseMode mode);
  void do_drain(Reply reply);
  Status do_sleep(MemoryTags tags);
  void do_wake(MemoryTags tags, std::shared_ptr<const models::WeightSet> weights);
  // Not OK where what has started cannot end now.
  Status can_wait(std::string_view who) const;

  EventSink* const sink_;
  Mailbox mailbox_;

  // The engine's thread only, but for EngineCore::progress.
  std::unique_ptr<EngineCore> core_;
  Gate gate_;

  mutable std::mutex mutex_;
  std::unordered_set<SequenceId> in_flight_;  // guarded by mutex_
  ShardMetrics metrics_;                      // guarded by mutex_
  bool paused_ = false;                       // guarded by mutex_
  bool has_weights_ = false;                  // guarded by mutex_
  int64_t steps_ = 0;                         // guarded by mutex_

  std::once_flag stopped_;
  std::jthread thread_;
};

}  // namespace rlgen::engine
