#include "engine/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "contract/limits.h"
#include "contract/spec_error.h"
#include "engine/stop_rules.h"

namespace rlgen::engine {
namespace {

Status check_option(std::string_view name, int64_t value, const WholeRange& range) {
  if (range.contains(value)) return absl::OkStatus();
  return spec_error(name, absl::InvalidArgumentError(
                              fmt::format("{} is {}; it must be {}", name, value, range.rule())));
}

Status check_options(const EngineOptions& options, const models::DecoderSpec& spec) {
  RLGEN_RETURN_IF_ERROR(check_option("max_num_seqs", options.max_num_seqs, kNumSeqsRange));
  RLGEN_RETURN_IF_ERROR(check_option("max_num_batched_tokens", options.max_num_batched_tokens,
                                     kNumBatchedTokensRange));
  RLGEN_RETURN_IF_ERROR(check_option("max_wanted_rows", options.max_wanted_rows, {0, 1 << 24}));
  RLGEN_RETURN_IF_ERROR(check_option("num_threads", options.num_threads, {1, 4096}));
  RLGEN_RETURN_IF_ERROR(
      check_option("max_model_len", options.limits.max_model_len, {kLeastModelLen, kMostInt32}));
  return check_option("vocab_size", options.limits.vocab_size, {1, spec.vocab_rows});
}

ScheduleLimits schedule_limits(const EngineOptions& options) {
  constexpr int32_t kWantedRows = 64;
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_wanted_rows = options.max_wanted_rows > 0
                                 ? options.max_wanted_rows
                                 : std::max(kWantedRows, options.max_num_seqs),
          .prefix_caching = options.enable_prefix_caching};
}

Status check_profile(kernels::Profile profile, const models::NameTable& table) {
  if (profile == kernels::Profile::kFloat32) return absl::OkStatus();
  for (const models::WeightSlot& slot : table.slots) {
    const bool multiplied = slot.kind == models::SlotKind::kMatrix && !slot.outside_profile;
    if (!multiplied || slot.dtype == DType::kBFloat16) continue;
    return absl::InvalidArgumentError(
        fmt::format("the {} profile needs matrices in bfloat16; {} is in {}",
                    kernels::profile_name(profile), slot.name, torch_name(slot.dtype)));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<EngineCore>> EngineCore::create(const EngineOptions& options,
                                                         EngineParts parts) {
  RLGEN_RETURN_IF_ERROR(check_options(options, parts.decoder->spec));
  RLGEN_RETURN_IF_ERROR(check_profile(parts.profile, *parts.decoder->table));
  RLGEN_ASSIGN_OR_RETURN(BlockAllocator allocator,
                         BlockAllocator::create(parts.kv_memory, parts.kv_layout));
  std::unique_ptr<EngineCore> core(new EngineCore(options, std::move(parts), std::move(allocator)));
  RLGEN_RETURN_IF_ERROR(core->start_capture());
  const int threads = core->pool_.num_threads();
  if (threads == options.num_threads) return core;
  return absl::ResourceExhaustedError(fmt::format(
      "num_threads is {}; the system lets this process start {}", options.num_threads, threads));
}

EngineCore::EngineCore(const EngineOptions& options, EngineParts parts, BlockAllocator allocator)
    : options_(options),
      parts_(std::move(parts)),
      route_layers_(route_layers(parts_.decoder->spec)),
      allocator_(std::move(allocator)),
      scheduler_(schedule_limits(options_), &allocator_),
      pool_(options_.num_threads),
      scratch_(size_t(pool_.num_threads())) {
  batch_.progress = &progress_;
}

Status EngineCore::start_capture() {
  if (options_.route_capture == RouteCapture::kOff) return absl::OkStatus();
  auto store = RouteStore::create(options_.route_capture, route_layers_, allocator_.view());
  if (!store.ok()) return spec_error("enable_return_routed_experts", store.status());
  routes_ = *std::move(store);
  return absl::OkStatus();
}

void EngineCore::submit(SequenceRequest request) {
  const SequenceId id = request.id;
  Status status = accept(std::move(request));
  if (!status.ok()) refuse(id, std::move(status));
}

void EngineCore::refuse(SequenceId id, Status error) {
  finish_unstarted(id, {.reason = FinishReason::kError, .error = std::move(error)});
}

Status EngineCore::accept(SequenceRequest request) {
  if (!weights_) {
    return absl::FailedPreconditionError("the engine has no weights; send an update first");
  }
  RLGEN_ASSIGN_OR_RETURN(auto sequence, make_sequence(std::move(request), options_.limits));
  RLGEN_RETURN_IF_ERROR(check_routes(sequence.get(), route_layers_, routes_.on()));
  const SequenceRequest& kept = sequence->request;
  if (!kept.score_only) {
    if (!kept.sampling.stop.empty() && !parts_.watchers) {
      return absl::UnimplementedError(
          "sampling.stop needs a tokenizer and this engine was started without one");
    }
    if (parts_.watchers) {
      RLGEN_ASSIGN_OR_RETURN(sequence->watcher, parts_.watchers(kept));
    }
  }
  if (auto finish = stop_before_start(options_.limits, *sequence)) {
    if (sequence->next_prompt == sequence->prompt_len) {
      finish_unstarted(kept.id, *std::move(finish));
      return absl::OkStatus();
    }
    sequence->ending = std::move(finish);
  }
  RLGEN_RETURN_IF_ERROR(scheduler_.check_fits(sequence->most_rows()));
  sequence->arrival = arrivals_++;
  const bool bypassed =
      kept.routed_experts || (kept.sampling.prompt_logprobs && sequence->prompt_len > 1);
  cache_bypassed_ += options_.enable_prefix_caching && bypassed ? 1 : 0;
  scheduler_.add(std::move(sequence));
  return absl::OkStatus();
}

void EngineCore::finish_unstarted(SequenceId id, Finish finish) {
  SequenceEvent event;
  event.id = id;
  event.finish = std::move(finish);
  events_.push_back(std::move(event));
}

void EngineCore::cancel(SequenceId id) {
  const auto sequence = scheduler_.remove(id);
  if (!sequence) return;
  finish_unstarted(
      id, {.reason = FinishReason::kAbort, .cached_tokens = sequence->cached_tokens.value_or(0)});
  deliver_routes(sequence.get(), &events_.back());
}

void EngineCore::abort_all(bool started_only) {
  for (const auto& group : {scheduler_.running(), scheduler_.waiting()}) {
    for (const Sequence* sequence : group) {
      if (!started_only || sequence->started) cancel(sequence->request.id);
    }
  }
}

void EngineCore::set_weights(std::shared_ptr<const models::WeightSet> weights, KvPolicy policy) {
  if (policy == KvPolicy::kAbort) abort_all(/*started_only=*/true);
  if (policy == KvPolicy::kRecompute) retract_all();
  if (policy == KvPolicy::kKeep) {
    for (Sequence* sequence : scheduler_.running()) {
      if (sequence->remaining() > 1 || !sequence->oldest_kv) {
        sequence->drop_kv();
      } else {
        sequence->mixed_kv = sequence->computed > 0;
      }
    }
  }
  weights_ = std::move(weights);
  scheduler_.set_serial(weights_->serial());
}

void EngineCore::relabel(std::shared_ptr<const models::WeightSet> weights) {
  for (Sequence* sequence : scheduler_.running()) {
    if (sequence->oldest_kv && !sequence->mixed_kv) sequence->oldest_kv = weights->version();
  }
  weights_ = std::move(weights);
}

void EngineCore::clear_kv() {
  scheduler_.retract_all();
  scheduler_.forget_prefixes();
}

Status EngineCore::release_memory() {
  std::vector<float>().swap(logits_);
  std::vector<int32_t>().swap(route_rows_);
  std::vector<int32_t>().swap(given_rows_);
  workspace_ = {};
  return parts_.kv_memory->release_pages();
}

ShardMetrics EngineCore::metrics() const {
  const PrefixStats prefix = scheduler_.prefix_stats();
  return {.running = scheduler_.num_running(),
          .waiting = scheduler_.num_waiting(),
          .generated_tokens = generated_tokens_,
          .prompt_tokens = prompt_tokens_,
          .preemptions = scheduler_.preemptions(),
          .kv_blocks_used = allocator_.total() - allocator_.free() - allocator_.idle(),
          .kv_blocks_total = allocator_.total(),
          .kv_blocks_idle = allocator_.idle(),
          .cache_hit_tokens = prefix.hit_tokens,
          .cache_miss_tokens = prefix.miss_tokens,
          .cache_evictions = prefix.evictions,
          .cache_bypassed = cache_bypassed_};
}

}  // namespace rlgen::engine
