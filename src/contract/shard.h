#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/events.h"
#include "contract/limits.h"
#include "contract/numerics.h"
#include "contract/request.h"
#include "contract/routes/route_span.h"
#include "contract/weight_sink.h"

namespace rlgen {

// keep: freeze running sequences; wait: stop admitting and let them finish; abort: end them with
// finish reason "abort"; retract: drop their KV and put them back in the queue.
enum class PauseMode { kKeep, kWait, kAbort, kRetract };

// Which memory stands down or is brought back.
struct MemoryTags {
  bool weights = true;
  bool kv_cache = true;
};

// What becomes of weights that stand down: kept in a file and read back by wake, or dropped, so
// that only an update brings weights back.
enum class SleepLevel { kKeep = 1, kDrop = 2 };

// How to start a shard. Options that a backend does not know do not exist: unknown is refused where
// options are parsed. 0 means "decide from machine and model" where a comment says so.
struct ShardSpec {
  std::string model;           // Hugging Face folder
  int32_t num_threads = 0;     // 0: every usable CPU; else up to those of the machine
  std::string isa = "auto";    // auto | scalar | avx2 | avx512 | avx512_bf16 | amx | neon
  std::string dtype = "auto";  // of the weights; auto: each keeps the checkpoint's type
  // Arithmetic profile: float32 | bfloat16 | bfloat16_amx.
  std::string activation_dtype = "float32";
  std::string kv_cache_dtype = "auto";  // auto: the type that the profile rounds to (float32)
  int64_t kv_cache_memory_bytes = 0;    // 0: by need, at most a fraction of the free memory
  // That fraction. Another one than this beside a number of bytes is refused.
  double kv_cache_memory_fraction = kMemoryFraction;
  int32_t block_size = 16;               // keys per KV block, a multiple of 16
  int32_t max_num_seqs = 64;             // running at once
  int32_t max_num_batched_tokens = 512;  // rows of one step
  int64_t max_model_len = 0;             // 0: the model's max_position_embeddings
  bool enable_prefix_caching = true;     // equal beginnings share KV blocks
  // Every event carries the experts that its rows used. Refused for a model without experts.
  bool enable_return_routed_experts = false;
  // Layer axis of these routes: moe, the layers with experts; all, with the dummy route 0, 1, ...,
  // top-k - 1 where a layer has none.
  std::string routed_experts_layers = "moe";
};

// An update that a shard has begun and not ended.
struct OpenUpdate {
  std::string update_id;
  WeightVersion version = 0;
  WeightSerial serial = 0;
  bool prepared = false;
};

// What a started shard is. Fixed for its life but for its weights and its sleep (the last four).
struct ShardInfo {
  std::string backend;  // "local", ...
  std::string model;
  NumericsId numerics;
  std::string isa;
  int32_t num_threads = 0;
  int32_t vocab_size = 0;  // ids 0 .. vocab_size-1 are valid in requests
  int32_t max_model_len = 0;
  std::vector<int32_t> eos_token_ids;  // union of config, generation config and tokenizer
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_capacity_tokens = 0;
  RouteFacts routes;  // that it records
  // Shards that name the same one share their weights: an update of one is an update of all. Empty:
  // the weights are its own.
  std::string weight_store;
  WeightVersion version = 0;
  WeightSerial serial = 0;  // 0: it serves none
  std::optional<OpenUpdate> open_update;
  MemoryTags asleep{false, false};
};

struct ShardCapabilities {
  bool exact_score = false;  // score_only gives generation's bits
  bool continue_sequence = false;
  bool weight_updates = false;
  std::vector<LogprobsMode> logprobs_modes;
};

struct ShardHealth {
  bool serving = false;
  bool paused = false;   // or asleep
  int64_t steps = 0;     // done
  int64_t progress = 0;  // grows while the shard computes, within a step too
};

// Counters since start and gauges of now.
struct ShardMetrics {
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t generated_tokens = 0;
  int64_t prompt_tokens = 0;  // prefilled, repeated prefills counted again
  int64_t preemptions = 0;
  int64_t kv_blocks_used = 0;
  int64_t kv_blocks_total = 0;
  int64_t kv_blocks_idle = 0;  // not used, kept for the prefix cache until the room is needed
  // Tokens of finished prefills whose KV came from the cache, and those whose KV was computed;
  // repeated prefills counted again. Both stay 0 without prefix caching.
  int64_t cache_hit_tokens = 0;
  int64_t cache_miss_tokens = 0;
  int64_t cache_evictions = 0;  // blocks
  int64_t cache_bypassed = 0;   // requests that could not use the cache: prompt log-probabilities,
                                // given routes
};

// The engine side of rlgen as its users see it. Thread-safe. Events go to the EventSink that the
// launcher was given.
class ShardClient : public WeightSink {
 public:
  // Queues the sequences. A request that is wrong or can never fit ends alone, by an event with
  // finish reason "error"; the returned error concerns the shard as a whole (kUnavailable after
  // shutdown).
  virtual Status submit(std::vector<SequenceRequest> requests) = 0;

  // Ends the sequences with finish reason "abort"; ids that are not in flight are ignored.
  virtual Status cancel(std::span<const SequenceId> ids) = 0;

  // Idempotent for the mode in force; another mode while paused is kFailedPrecondition. Returns
  // when the pause holds (kWait: when the running sequences are done).
  virtual Status pause(PauseMode mode) = 0;
  virtual Status resume() = 0;

  // Drops all KV: the reusable one, and that of running sequences, which rebuild theirs before
  // their next token. Holds when it returns.
  virtual Status clear_kv_cache() = 0;

  // Gives memory back to the system. The shard then refuses new requests by name, and sequences in
  // flight lose their KV and stand still until everything is awake; after kDrop until an update
  // brought weights, too. What sleeps already may be put to sleep again. kFailedPrecondition for
  // weights while an update is open, or while a pause or update waits for running sequences.
  virtual Status sleep(SleepLevel level, MemoryTags tags) = 0;
  // Brings memory back; cheap where it is there. Weights are the ones that served, with the same
  // bits, unless an update came first.
  virtual Status wake(MemoryTags tags) = 0;

  // Names the served weights anew for the tokens made from then on; they stay what they are.
  // kFailedPrecondition where none are served.
  virtual Status set_version(WeightVersion version) = 0;

  // The digest of every tensor as it is served, un-packed, under its Hugging Face name. These two:
  // kFailedPrecondition where no weights are served; kNotFound for a name that the model lacks.
  virtual StatusOr<std::vector<ManifestEntry>> served_checksums() = 0;
  virtual StatusOr<TensorBytes> read_tensor(std::string_view name) = 0;

  virtual StatusOr<ShardInfo> info() = 0;
  virtual ShardCapabilities capabilities() = 0;
  virtual ShardHealth health() = 0;
  virtual ShardMetrics metrics() = 0;

  // Ends every sequence with "abort" and stops the shard's threads. Repeated calls are safe.
  virtual Status shutdown() = 0;
};

// Starts shards of one backend.
class ShardLauncher {
 public:
  virtual ~ShardLauncher() = default;

  // A serving shard with the checkpoint of `spec.model` as version 0. `sink` must outlive it.
  virtual StatusOr<std::unique_ptr<ShardClient>> start(const ShardSpec& spec, EventSink& sink) = 0;
};

}  // namespace rlgen
