#include "generation/generation.h"

#include <fmt/format.h>

#include <algorithm>

#include "generation/error_code.h"
#include "generation/seeds.h"

namespace rlgen::generation {
namespace {

Status check_ids(std::string_view field, std::span<const int32_t> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}[{}] is {}; token ids go from 0 to {}", field, i, ids[i], vocab_size - 1));
  }
  return absl::OkStatus();
}

Status check_samples(const GenerationRequest& request) {
  for (const int32_t sample : request.samples) {
    if (sample < 0 || sample >= request.sampling.n) {
      return absl::InvalidArgumentError(
          fmt::format("sample {} was asked for; n is {}", sample, request.sampling.n));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Generation::Generation(GenerationOptions options) : options_(std::move(options)) {
  if (!options_.clock) options_.clock = make_system_clock();
}

StatusOr<std::unique_ptr<Generation>> Generation::start(ShardLauncher& launcher,
                                                        const std::vector<ShardSpec>& specs,
                                                        GenerationOptions options) {
  if (specs.empty()) return absl::InvalidArgumentError("no shard was asked for");
  std::unique_ptr<Generation> generation(new Generation(std::move(options)));
  std::vector<ShardInfo> infos;
  for (const ShardSpec& spec : specs) {
    RLGEN_ASSIGN_OR_RETURN(auto client, launcher.start(spec, *generation));
    RLGEN_ASSIGN_OR_RETURN(const ShardInfo info, client->info());
    if (generation->shards_.empty()) generation->info_ = info;
    generation->shards_.push_back({.client = std::move(client)});
    RLGEN_RETURN_IF_ERROR(generation->agree(info));
    infos.push_back(info);
  }
  generation->start_updates(infos);
  return generation;
}

Generation::~Generation() {
  const Status status = shutdown();
  if (!status.ok()) write_log(options_.log, LogLevel::kWarning, status.ToString());
}

Status Generation::agree(const ShardInfo& other) const {
  if (other.routes != info_.routes) {
    return absl::FailedPreconditionError(fmt::format(
        "shards differ: routed_experts have {} layers and top-{}, and {} and top-{}",
        info_.routes.layers, info_.routes.top_k, other.routes.layers, other.routes.top_k));
  }
  if (other.numerics == info_.numerics && other.vocab_size == info_.vocab_size) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(fmt::format(
      "shards differ: numerics {} with {} ids and {} with {} ids", info_.numerics.to_string(),
      info_.vocab_size, other.numerics.to_string(), other.vocab_size));
}

Status Generation::resolve_bad_words(SamplingParams* sampling) const {
  for (const std::string& word : sampling->bad_words) {
    if (!options_.bad_words) {
      return absl::FailedPreconditionError(
          "bad_words needs the tokenizer of the model, which is not there; use bad_words_ids");
    }
    RLGEN_ASSIGN_OR_RETURN(const auto sequences, options_.bad_words(word));
    auto& banned = sampling->bad_words_ids;
    for (const auto& ids : sequences) {
      if (std::find(banned.begin(), banned.end(), ids) == banned.end()) banned.push_back(ids);
    }
  }
  return absl::OkStatus();
}

Status Generation::complete(GenerationRequest* request) const {
  SamplingParams& sampling = request->sampling;
  RLGEN_RETURN_IF_ERROR(resolve_bad_words(&sampling));
  RLGEN_RETURN_IF_ERROR(validate(sampling));
  RLGEN_RETURN_IF_ERROR(validate_token_ids(sampling, info_.vocab_size));
  RLGEN_RETURN_IF_ERROR(check_samples(*request));
  if (request->prompt_token_ids.empty()) {
    return absl::InvalidArgumentError("the prompt is empty; it must have at least one token");
  }
  RLGEN_RETURN_IF_ERROR(check_ids("prompt_token_ids", request->prompt_token_ids, info_.vocab_size));
  RLGEN_RETURN_IF_ERROR(validate_output_prefix(sampling, request->prompt_token_ids.size()));
  auto length = static_cast<int64_t>(request->prompt_token_ids.size());
  if (request->score_token_ids) {
    RLGEN_RETURN_IF_ERROR(check_ids("token_ids", *request->score_token_ids, info_.vocab_size));
    length += static_cast<int64_t>(request->score_token_ids->size());
  }
  RLGEN_RETURN_IF_ERROR(
      validate_routes_start(sampling, static_cast<size_t>(length), info_.routes.recorded()));
  if (length > info_.max_model_len) return context_length_exceeded(length, info_.max_model_len);
  if (!sampling.seed) sampling.seed = draw_seed();
  return absl::OkStatus();
}

// Of the shards that may take requests; null where there is none.
Generation::Shard* Generation::least_busy() {
  Shard* least = nullptr;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (!is_current(i)) continue;
    if (least == nullptr || shards_[i].in_flight < least->in_flight) least = &shards_[i];
  }
  return least;
}

std::vector<SequenceRequest> Generation::open_sequences(
    const GenerationRequest& request, const std::shared_ptr<const RequestObserver>& observer,
    size_t* shard) {
  std::vector<int32_t> samples = request.samples;
  const int32_t all = request.score_token_ids ? 1 : request.sampling.n;
  for (int32_t i = 0; request.samples.empty() && i < all; ++i) samples.push_back(i);

  const std::lock_guard lock(mutex_);
  Shard* const least = least_busy();
  if (least == nullptr) return {};
  *shard = static_cast<size_t>(least - shards_.data());
  std::vector<SequenceRequest> requests;
  for (const int32_t sample : samples) {
    SequenceRequest sequence{.id = next_id_++, .sample_index = sample};
    sequence.prompt_token_ids = request.prompt_token_ids;
    sequence.sampling = request.sampling;
    sequence.sampling.bad_words.clear();
    sequence.routed_experts = request.routed_experts;
    sequence.cache_salt = request.cache_salt;
    sequence.priority = request.priority;
    OpenSequence open{.id = request.id, .sample = sample};
    open.prompt_token_ids = request.prompt_token_ids;
    open.sampling = request.sampling;
    open.numerics = info_.numerics.to_string();
    open.routes = info_.routes;
    open.given_routes = request.routed_experts;
    if (!nothing_to_do(request)) open.shard = static_cast<int32_t>(*shard);
    if (request.score_token_ids) {
      sequence.score_only = open.score_only = true;
      sequence.output_token_ids = open.score_token_ids = *request.score_token_ids;
    }
    // Ids are never given out twice, so opening cannot fail.
    ledger_.open(sequence.id, std::move(open)).IgnoreError();
    flights_[sequence.id] = {.observer = observer, .shard = *shard};
    requests.push_back(std::move(sequence));
  }
  if (least->in_flight == 0) least->last_progress = options_.clock->now();
  least->in_flight += static_cast<int64_t>(requests.size());
  return requests;
}

void Generation::drop(std::span<const SequenceRequest> requests) {
  const std::lock_guard lock(mutex_);
  for (const SequenceRequest& request : requests) {
    const auto flight = flights_.find(request.id);
    if (flight == flights_.end()) continue;
    --shards_[flight->second.shard].in_flight;
    ledger_.forget(request.id);
    flights_.erase(flight);
  }
}

// How a request ends that no shard is needed for.
std::optional<Finish> Generation::nothing_to_do(const GenerationRequest& request) const {
  const SamplingParams& sampling = request.sampling;
  if (sampling.prompt_logprobs) return std::nullopt;
  if (request.score_token_ids) {
    if (!request.score_token_ids->empty()) return std::nullopt;
    return Finish{.reason = FinishReason::kStop};
  }
  const auto length = static_cast<int64_t>(request.prompt_token_ids.size());
  if (length < info_.max_model_len || sampling.output_prefix_len > 0) return std::nullopt;
  return Finish{.reason = FinishReason::kLength, .context_full = true};
}

void Generation::end_at_once(std::span<const SequenceRequest> requests, const Finish& finish) {
  EventBatch events;
  for (const SequenceRequest& request : requests) {
    events.push_back({.id = request.id, .finish = finish});
  }
  on_events(std::move(events));
}

StatusOr<std::vector<SequenceId>> Generation::submit(GenerationRequest request,
                                                     RequestObserver observer) {
  RLGEN_RETURN_IF_ERROR(complete(&request));
  if (const MemoryTags tags = asleep(); tags.weights || tags.kv_cache) {
    return absl::FailedPreconditionError(
        fmt::format("generation is asleep ({}); wake it first", !tags.kv_cache ? "weights"
                                                                : tags.weights ? "weights, kv_cache"
                                                                               : "kv_cache"));
  }
  size_t shard = 0;
  auto requests =
      open_sequences(request, std::make_shared<const RequestObserver>(std::move(observer)), &shard);
  if (requests.empty()) {
    return absl::UnavailableError(fmt::format(
        "no shard serves version {} of the weights, which was decided last", updates_->version()));
  }
  std::vector<SequenceId> ids;
  for (const SequenceRequest& sequence : requests) ids.push_back(sequence.id);
  if (const auto finish = nothing_to_do(request)) {
    end_at_once(requests, *finish);
    return ids;
  }
  const Status status = shards_[shard].client->submit(requests);
  if (status.ok()) return ids;
  drop(requests);
  return status;
}

Status Generation::cancel(std::span<const SequenceId> ids) {
  std::vector<std::vector<SequenceId>> by_shard(shards_.size());
  {
    const std::lock_guard lock(mutex_);
    for (const SequenceId id : ids) {
      const auto flight = flights_.find(id);
      if (flight != flights_.end()) by_shard[flight->second.shard].push_back(id);
    }
  }
  Status first;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (by_shard[i].empty()) continue;
    const Status status = shards_[i].client->cancel(by_shard[i]);
    if (first.ok()) first = status;
  }
  return first;
}

void Generation::take(SequenceEvent event, std::vector<News>* news,
                      std::vector<std::pair<size_t, SequenceId>>* rejected) {
  const SequenceId id = event.id;
  const auto flight = flights_.find(id);
  if (flight == flights_.end()) return;  // rejected or dropped before
  StatusOr<RequestLedger::Applied> applied = ledger_.apply(std::move(event));
  if (!applied.ok()) return;
  if (applied->reject) rejected->emplace_back(flight->second.shard, id);
  const bool finished = applied->rollout.has_value();
  news->push_back({.observer = flight->second.observer,
                   .sample = applied->sample,
                   .tokens = std::move(applied->tokens),
                   .routes = std::move(applied->routes),
                   .rollout = std::move(applied->rollout)});
  if (!finished) return;
  --shards_[flight->second.shard].in_flight;
  flights_.erase(flight);
}

void Generation::on_events(EventBatch events) {
  std::vector<News> news;
  std::vector<std::pair<size_t, SequenceId>> rejected;
  {
    const std::lock_guard lock(mutex_);
    news.reserve(events.size());
    for (SequenceEvent& event : events) take(std::move(event), &news, &rejected);
  }
  for (News& item : news) {
    if (item.observer->on_tokens && (item.rollout || !item.tokens.empty())) {
      const Finish* const finish = item.rollout ? &item.rollout->finish : nullptr;
      item.observer->on_tokens(item.sample, item.tokens, item.routes, finish);
    }
    if (item.rollout && item.observer->on_rollout) {
      item.observer->on_rollout(*std::move(item.rollout));
    }
  }
  for (const auto& [shard, id] : rejected) {
    const Status status = shards_[shard].client->cancel(std::span(&id, 1));
    if (!status.ok()) write_log(options_.log, LogLevel::kWarning, status.ToString());
  }
}

Status Generation::check_progress() {
  for (size_t i = 0; i < shards_.size(); ++i) {
    const ShardHealth health = shards_[i].client->health();
    const std::lock_guard lock(mutex_);
    Shard& shard = shards_[i];
    const Clock::TimePoint now = options_.clock->now();
    if (shard.in_flight == 0 || health.paused || health.progress != shard.last_seen) {
      shard.last_progress = now;
    }
    shard.last_seen = health.progress;
    if (shard.in_flight == 0) continue;
    if (!health.serving) {
      return absl::UnavailableError(
          fmt::format("shard {} stopped serving with {} sequences in flight", i, shard.in_flight));
    }
    if (now - shard.last_progress > options_.stall_timeout) {
      return absl::DeadlineExceededError(fmt::format(
          "shard {} computed nothing for {} s with {} sequences in flight", i,
          std::chrono::duration_cast<std::chrono::seconds>(options_.stall_timeout).count(),
          shard.in_flight));
    }
  }
  return absl::OkStatus();
}

Status Generation::check_shard(int64_t shard) const {
  const auto count = static_cast<int64_t>(shards_.size());
  if (shard >= 0 && shard < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("there is no shard {}; shards go from 0 to {}", shard, count - 1));
}

StatusOr<ShardHealth> Generation::shard_health(int64_t shard) {
  RLGEN_RETURN_IF_ERROR(check_shard(shard));
  return shards_[static_cast<size_t>(shard)].client->health();
}

std::vector<ShardMetrics> Generation::shard_metrics() {
  std::vector<ShardMetrics> metrics;
  for (const Shard& shard : shards_) metrics.push_back(shard.client->metrics());
  return metrics;
}

ShardMetrics Generation::metrics() {
  ShardMetrics sum;
  for (const ShardMetrics& one : shard_metrics()) {
    sum.running += one.running;
    sum.waiting += one.waiting;
    sum.generated_tokens += one.generated_tokens;
    sum.prompt_tokens += one.prompt_tokens;
    sum.preemptions += one.preemptions;
    sum.kv_blocks_used += one.kv_blocks_used;
    sum.kv_blocks_total += one.kv_blocks_total;
    sum.kv_blocks_idle += one.kv_blocks_idle;
    sum.cache_hit_tokens += one.cache_hit_tokens;
    sum.cache_miss_tokens += one.cache_miss_tokens;
    sum.cache_evictions += one.cache_evictions;
    sum.cache_bypassed += one.cache_bypassed;
  }
  return sum;
}

int64_t Generation::in_flight() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(flights_.size());
}

Status Generation::shutdown() {
  Status first;
  for (Shard& shard : shards_) {
    const Status status = shard.client->shutdown();
    if (first.ok()) first = status;
  }
  fan_out_.join();
  return first;
}

}  // namespace rlgen::generation
