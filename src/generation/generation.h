#pragma once

#include <absl/container/flat_hash_map.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "contract/events.h"
#include "contract/rollout.h"
#include "contract/shard.h"
#include "generation/fan_out.h"
#include "generation/request_ledger.h"
#include "generation/update_coordinator.h"

namespace rlgen::generation {

// The id sequences that a banned word stands for.
using BadWordResolver =
    std::function<StatusOr<std::vector<std::vector<int32_t>>>(const std::string& word)>;

// How long shards may take to pause or to go on where the caller sets no limit.
inline constexpr std::chrono::seconds kPauseTimeout{360};

struct PauseOptions {
  bool clear_cache = false;  // reusable KV is dropped, and frozen sequences rebuild theirs
  std::chrono::milliseconds timeout = kPauseTimeout;
};

// The weights that the shards serve.
struct ServedWeights {
  struct OfShard {
    WeightVersion version = 0;
    WeightSerial serial = 0;  // 0: it serves none
    bool current = true;      // serves what was decided last; false: it gets no new requests
  };
  WeightVersion version = 0;
  WeightSerial serial = 0;
  std::optional<std::string> open_update;
  std::vector<OfShard> shards;
};

struct GenerationOptions {
  // A shard with work whose ShardHealth::progress stands still for that long is taken for dead. A
  // step may last longer, on a slow machine much longer: it is the layers that count.
  std::chrono::milliseconds stall_timeout{300'000};
  BadWordResolver bad_words;     // empty: words to ban are refused, ids are not
  std::unique_ptr<Clock> clock;  // empty: the system's
  LogSink log;
  // CoordinatorOptions::note.
  std::function<Status(const UpdateDecision&)> note_update;
};

// One prompt with the samples wanted of it.
struct GenerationRequest {
  std::string id;
  std::vector<int32_t> prompt_token_ids;
  SamplingParams sampling;
  std::vector<int32_t> samples;  // which of 0 .. n-1 to make; empty: all
  // When set, no token is made: these are scored, as the one sample named by `samples` (or 0).
  std::optional<std::vector<int32_t>> score_token_ids;
  GivenRoutes routed_experts;  // SequenceRequest's
  std::string cache_salt;
  int32_t priority = 0;
  int64_t tag = 0;  // the caller's own, not looked at
};

// Where the news of one request go. Both are called from a shard's thread, for one step at a time,
// and must return soon; they may call submit and cancel.
struct RequestObserver {
  // What came of one sample; `finish` is not null with the last of it. `routes` are the rows that
  // follow those that came before, where the shards record them.
  std::function<void(int32_t sample, std::span<const TokenRecord> tokens, const RouteSpan& routes,
                     const Finish* finish)>
      on_tokens;
  std::function<void(Rollout rollout)> on_rollout;  // once a sample, without text
};

// The trainer-facing side of a set of shards: names sequences, chooses shards, fills in what a
// request leaves open, and turns events into rollouts that are complete or say what is wrong.
// Thread-safe.
class Generation final : private EventSink {
 public:
  // Starts one shard for each spec. The shards must agree in numerics, vocabulary and the routes
  // they record (kFailedPrecondition names the difference). Errors of the launcher come through.
  static StatusOr<std::unique_ptr<Generation>> start(ShardLauncher& launcher,
                                                     const std::vector<ShardSpec>& specs,
                                                     GenerationOptions options);
  ~Generation() override;

  // Where messages go.
  const LogSink& log() const { return options_.log; }

  // What all shards share; the first one's.
  const ShardInfo& info() const { return info_; }

  // Checks a request and fills it in as it would be run: bad words as ids, a seed where none is
  // given. kInvalidArgument names the field (error code "context_length_exceeded" for a prompt
  // beyond the context); kFailedPrecondition for words to ban without a tokenizer.
  Status complete(GenerationRequest* request) const;

  // Completes the request and gives its samples to one shard, together. Returns the ids of the
  // sequences. Errors: those of complete(), kUnavailable when the shard is gone or none serves the
  // weights that were decided last, kFailedPrecondition while they are asleep; then the observer
  // is never called. A prompt that fills the context has samples without a token, with finish
  // reason "length" and context_full; a score of no tokens ends with "stop". Where no prompt
  // log-probabilities are wanted and no earlier output is there, this is so before submit returns.
  StatusOr<std::vector<SequenceId>> submit(GenerationRequest request, RequestObserver observer);

  // Ends the sequences with "abort"; each still gives its rollout. Ids not in flight are ignored.
  Status cancel(std::span<const SequenceId> ids);

  // For whoever waits: OK while every shard that has work is serving and computes, or is paused.
  // kUnavailable for a shard that does not serve, kDeadlineExceeded for one that computed nothing
  // for the stall timeout. Call it at least every few seconds.
  Status check_progress();

  // Pauses every shard. All are given until the timeout to answer and then looked at together; the
  // same pause again changes nothing. kFailedPrecondition while paused in another mode. Where a
  // shard cannot pause, those that did go on again, and its error comes back. A shard that did not
  // answer in time may still pause later: kDeadlineExceeded names it, and nothing is undone. kWait
  // returns when what has started is done; kCancelled when resume comes first.
  Status pause(PauseMode mode, PauseOptions options = {});
  // The same for going on. Without a pause it changes nothing.
  Status resume(std::chrono::milliseconds timeout = kPauseTimeout);
  // True from the first pause that was asked for until a resume that succeeded, or until it failed
  // and was undone.
  bool paused() const;

  // One transaction over all shards (update_coordinator.h); every transport writes into it. An
  // update does not change whether the shards are paused.
  UpdateCoordinator& updates() { return *updates_; }

  // Names the served weights for the tokens made from then on. Errors:
  // UpdateCoordinator::relabel's.
  Status set_rollout_weight_version(WeightVersion version);

  StatusOr<ServedWeights> served_weights();

  // The digest of every tensor as it is served, of all current shards. kDataLoss where two differ.
  StatusOr<std::vector<ManifestEntry>> served_checksums();
  // A tensor as it is served, by its Hugging Face name; of the first current shard.
  StatusOr<TensorBytes> read_tensor(std::string_view name);

  // True: no KV that earlier weights made will be read from here on. All KV is dropped; sequences
  // in flight rebuild theirs. False where a shard did not confirm that; the log says why.
  bool invalidate_kv_cache();

  // Gives memory back to the system (ShardClient's sleep); requests are refused until wake. Where a
  // shard cannot, those that did are woken again, and the error comes back.
  Status sleep(SleepLevel level, MemoryTags tags = {});
  // Brings back what sleeps of `tags`; OK at once where nothing does.
  Status wake(MemoryTags tags = {});
  MemoryTags asleep() const;

  // Of each shard, by index.
  std::vector<ShardMetrics> shard_metrics();
  // Sums over all shards.
  ShardMetrics metrics();
  // Asks one shard; waits for its answer. kInvalidArgument for an index that no shard has.
  StatusOr<ShardHealth> shard_health(int64_t shard);
  // OK for an index that a shard has; else kInvalidArgument with it.
  Status check_shard(int64_t shard) const;
  int64_t in_flight() const;

  // Stops the shards; what is in flight ends with "abort". Repeated calls are safe.
  Status shutdown();

 private:
  struct Shard {
    std::unique_ptr<ShardClient> client;
    int64_t in_flight = 0;
    int64_t last_seen = -1;  // of its progress
    Clock::TimePoint last_progress;
  };
  struct Flight {
    std::shared_ptr<const RequestObserver> observer;
    size_t shard = 0;
  };
  struct News {
    std::shared_ptr<const RequestObserver> observer;
    int32_t sample = 0;
    std::vector<TokenRecord> tokens;
    RouteSpan routes;
    std::optional<Rollout> rollout;
  };

  explicit Generation(GenerationOptions options);
  void start_updates(const std::vector<ShardInfo>& infos);
  bool is_current(size_t shard) const;
  Status first_error(std::string_view what, const std::vector<Status>& results) const;
  Status on_shards(std::string_view what, const FanOut::Task& task,
                   std::optional<std::chrono::milliseconds> timeout);
  Status agree(const ShardInfo& other) const;
  Status resolve_bad_words(SamplingParams* sampling) const;
  Shard* least_busy();
  // Empty where no shard may take requests.
  std::vector<SequenceRequest> open_sequences(
      const GenerationRequest& request, const std::shared_ptr<const RequestObserver>& observer,
      size_t* shard);
  void drop(std::span<const SequenceRequest> requests);
  std::optional<Finish> nothing_to_do(const GenerationRequest& request) const;
  void end_at_once(std::span<const SequenceRequest> requests, const Finish& finish);
  void on_events(EventBatch events) override;
  void take(SequenceEvent event, std::vector<News>* news,
            std::vector<std::pair<size_t, SequenceId>>* rejected);

  GenerationOptions options_;
  ShardInfo info_;  // immutable after start
  // By shard: which participant of the updates it is; those that share a store are one.
  std::vector<size_t> participants_;  // immutable after start

  mutable std::mutex mutex_;
  RequestLedger ledger_;                             // guarded by mutex_
  absl::flat_hash_map<SequenceId, Flight> flights_;  // guarded by mutex_
  std::vector<Shard> shards_;                        // clients immutable; counts by mutex_
  SequenceId next_id_ = 1;                           // guarded by mutex_
  bool paused_ = false;                              // guarded by mutex_
  MemoryTags asleep_{false, false};                  // guarded by mutex_

  std::unique_ptr<UpdateCoordinator> updates_;  // set by start; dies before the shards
  FanOut fan_out_;                              // joined after the shards are shut down
};

}  // namespace rlgen::generation
