#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "contract/shard.h"
#include "engine/kv/block.h"
#include "engine/request_check.h"
#include "engine/routes/route_layers.h"
#include "engine/routes/route_store.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/scheduler.h"
#include "models/decoder.h"

namespace rlgen::engine {

struct EngineOptions {
  int32_t max_num_seqs = 64;             // running at once
  int32_t max_num_batched_tokens = 512;  // rows of one step
  // Rows of one step whose logits are kept, each vocab_rows float32; 0: 64, or max_num_seqs where
  // that is more.
  int32_t max_wanted_rows = 0;
  int32_t num_threads = 1;
  bool enable_prefix_caching = true;
  RouteCapture route_capture = RouteCapture::kOff;
  RequestLimits limits;
};

// What an engine stands on.
struct EngineParts {
  std::shared_ptr<const models::Decoder> decoder;
  const kernels::KernelTable* kernels = nullptr;
  kernels::Profile profile = kernels::Profile::kFloat32;
  std::shared_ptr<Region> kv_memory;
  kernels::KvLayout kv_layout;
  TokenWatcherFactory watchers;                 // empty: a request with stop strings is refused
  EventSink* sink = nullptr;                    // outlives the engine
  models::ForwardObserver* observer = nullptr;  // called on the engine's thread; outlives it too
};

// The engine without its thread: queue, step and weights, all on the caller's thread.
class EngineCore {
 public:
  // kInvalidArgument names an option and its range, or a capture of routes where the model has no
  // experts or the KV layout no room for them; kResourceExhausted where the system does not give
  // that many threads.
  static StatusOr<std::unique_ptr<EngineCore>> create(const EngineOptions& options,
                                                      EngineParts parts);

  // Queues a request, or ends it by an event of the next emission.
  void submit(SequenceRequest request);
  // Ends a request with that error, by an event of the next emission.
  void refuse(SequenceId id, Status error);
  void cancel(SequenceId id);
  // Ends every sequence with "abort"; `started_only`: those that have run.
  void abort_all(bool started_only);
  // Drops the KV of running sequences and puts them back into the queue.
  void retract_all() { scheduler_.retract_all(); }
  // Drops that of running sequences, as above, and what the prefix cache holds.
  void clear_kv();
  // Gives the memory of KV and activations back to the system; it is made anew where it is used.
  // After clear_kv. Errors: Region::release_pages's.
  Status release_memory();
  // Serves none until set_weights; nothing may be computed meanwhile. After clear_kv.
  void drop_weights() { weights_.reset(); }

  // One step: admit, plan, forward, sample, emit. False when there was no row to compute; events
  // are emitted all the same.
  bool step(Admission admission);

  // Delivers events that wait, if any.
  void emit_pending();

  // Serves `weights` from the next step on. With kWait nothing may have started.
  void set_weights(std::shared_ptr<const models::WeightSet> weights, KvPolicy policy);

  // The weights in force under another label: the same serial, another version. KV that they made
  // goes by the new label too.
  void relabel(std::shared_ptr<const models::WeightSet> weights);

  const Scheduler& scheduler() const { return scheduler_; }
  const std::shared_ptr<const models::WeightSet>& weights() const { return weights_; }
  ShardMetrics metrics() const;
  int64_t steps() const { return steps_; }
  // Grows while the engine computes, layer by layer. Any thread.
  int64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  // One row whose logits are wanted, and what came of it.
  struct WantedRow {
    Sequence* sequence = nullptr;
    int32_t position = 0;  // that the row predicts
    TokenRecord record;
    Status status;
  };

  EngineCore(const EngineOptions& options, EngineParts parts, BlockAllocator allocator);

  Status accept(SequenceRequest request);
  void finish_unstarted(SequenceId id, Finish finish);
  Status start_capture();

  void forward(const Plan& plan);
  void sample();
  void emit(const Plan& plan);

  void add_to_batch(const PlannedRows& planned);

  // Memory for the routes of the batch, and those that its sequences were given; rows of one
  // sequence after the other.
  void place_routes(const Plan& plan);
  // Keeps the routes of the batch beside the KV blocks.
  void store_routes();
  // Puts what was computed and not delivered yet into the event.
  void deliver_routes(Sequence* sequence, SequenceEvent* event) const;

  void sample_row(WantedRow* row, float* logits, SampleScratch* scratch) const;
  // Each takes the record out of the row.
  void apply(WantedRow* row, SequenceEvent* event);
  void apply_prompt(WantedRow* row, SequenceEvent* event);
  void apply_score(WantedRow* row, SequenceEvent* event);
  void apply_token(WantedRow* row, SequenceEvent* event);

  const EngineOptions options_;
  const EngineParts parts_;
  const RouteLayers route_layers_;
  BlockAllocator allocator_;
  RouteStore routes_;
  Scheduler scheduler_;
  ThreadPool pool_;
  std::shared_ptr<const models::WeightSet> weights_;
  uint64_t arrivals_ = 0;

  // Reused from step to step.
  models::StepBatch batch_;
  models::Workspace workspace_;
  std::vector<float> logits_;        // [wanted rows, vocab_rows]
  std::vector<int32_t> route_rows_;  // [rows, expert layers, top_k], and so the next
  std::vector<int32_t> given_rows_;
  std::vector<WantedRow> wanted_;
  std::vector<SampleScratch> scratch_;  // one per thread
  EventBatch events_;

  std::atomic<int64_t> progress_{0};
  int64_t steps_ = 0;  // with at least one row
  int64_t generated_tokens_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t cache_bypassed_ = 0;
};

}  // namespace rlgen::engine
