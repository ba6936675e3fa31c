#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "engine/weights/weight_store.h"
#include "models/model.h"

// Fixture checkpoints on an engine, for tests. Paths are relative to the repository root.
namespace rlgen::engine::test {

struct Outcome {
  std::vector<TokenRecord> tokens;
  std::vector<TokenRecord> prompt;
  RouteSpan routes;
  std::optional<Finish> finish;

  std::vector<int32_t> ids() const {
    std::vector<int32_t> all;
    for (const TokenRecord& record : tokens) all.push_back(record.token);
    return all;
  }
};

// Collects events and checks their order: none after the last, prompt records once, routes without
// a gap.
class Collector final : public EventSink {
 public:
  void on_events(EventBatch events) override {
    EXPECT_FALSE(events.empty());
    {
      std::lock_guard lock(mutex_);
      for (SequenceEvent& event : events) add(event);
      changed_.notify_all();
    }
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // Makes each step take a millisecond, so that a test is in time for the next one.
  void set_slow(bool slow) { slow_ = slow; }

  // Waits until the sequence ends.
  Outcome wait(SequenceId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcomes_[id].finish.has_value(); });
    return outcomes_[id];
  }
  // Waits until the sequence has at least so many tokens or has ended.
  void wait_for_tokens(SequenceId id, size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return outcomes_[id].finish.has_value() || outcomes_[id].tokens.size() >= count;
    });
  }
  Outcome get(SequenceId id) {
    std::lock_guard lock(mutex_);
    return outcomes_[id];
  }

 private:
  void add(SequenceEvent& event) {
    Outcome& outcome = outcomes_[event.id];
    EXPECT_FALSE(outcome.finish.has_value()) << "sequence " << event.id << " ended before";
    EXPECT_TRUE(event.prompt.empty() || outcome.prompt.empty());
    EXPECT_TRUE(event.prompt.empty() || outcome.tokens.empty());
    outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (!event.prompt.empty()) outcome.prompt = std::move(event.prompt);
    const Status routes = append_routes(event.routes, &outcome.routes);
    EXPECT_TRUE(routes.ok()) << "sequence " << event.id << ": " << routes;
    outcome.finish = std::move(event.finish);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SequenceId, Outcome> outcomes_;
  std::atomic<bool> slow_{false};
};

// A checkpoint loaded into a store, as version 0.
struct Loaded {
  models::Model model;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<WeightStore> store;

  // Another set of weights: the same but for one bit of the mantissa of every float32.
  std::shared_ptr<const models::WeightSet> other_weights(WeightVersion version,
                                                         WeightSerial serial) const {
    const models::WeightSet& served = *store->current();
    auto region = *Region::create(served.region()->size());
    std::memcpy(region->data(), served.region()->data(), size_t(region->size()));
    for (int64_t i = 2; i < region->size(); i += 4) region->data()[i] ^= std::byte(0x10);
    return std::make_shared<models::WeightSet>(std::make_shared<models::NameTable>(served.table()),
                                               region, version, serial);
  }
};

inline Loaded load_checkpoint(const std::string& name, int32_t max_model_len = 0) {
  auto model = models::open_model("tests/fixtures/checkpoints/" + name, max_model_len);
  EXPECT_TRUE(model.ok()) << model.status();
  Loaded loaded{*std::move(model), make_system_clock(), nullptr};
  loaded.store = std::make_unique<WeightStore>(
      loaded.model.decoder.table, WeightStoreOptions{.clock = loaded.clock.get(), .flip = {}});
  UpdateSpec update{.update_id = "load", .serial = 1, .manifest = loaded.model.tensors.manifest()};
  EXPECT_TRUE(loaded.store->begin(update).ok());
  for (const models::StoredTensor& tensor : loaded.model.tensors.tensors()) {
    EXPECT_TRUE(loaded.store->write("load", tensor.name, 0, tensor.bytes).ok());
  }
  EXPECT_TRUE(loaded.store->prepare("load").ok());
  EXPECT_TRUE(loaded.store->commit("load").ok());
  return loaded;
}

struct Settings {
  std::string isa = "auto";
  int32_t threads = 1;
  int32_t max_num_seqs = 64;
  int32_t budget = 512;
  int32_t wanted = 0;
  int32_t kv_blocks = 512;
  int32_t block_size = 16;
  DType kv_dtype = DType::kFloat32;
  kernels::Profile profile = kernels::Profile::kFloat32;
  bool prefix_caching = true;
  RouteCapture route_capture = RouteCapture::kOff;
  TokenWatcherFactory watchers;
};

inline EngineOptions make_options(const Loaded& loaded, const Settings& settings) {
  EngineOptions options;
  options.max_num_seqs = settings.max_num_seqs;
  options.max_num_batched_tokens = settings.budget;
  options.max_wanted_rows = settings.wanted;
  options.num_threads = settings.threads;
  options.enable_prefix_caching = settings.prefix_caching;
  options.route_capture = settings.route_capture;
  options.limits = {.vocab_size = loaded.model.decoder.spec.vocab_rows,
                    .max_model_len = loaded.model.max_model_len,
                    .eos_token_ids = loaded.model.eos_token_ids};
  return options;
}

// KV memory starts full of NaN: whatever reads a slot that was not written shows.
inline EngineParts make_parts(const Loaded& loaded, const Settings& settings, EventSink* sink) {
  const models::DecoderSpec& spec = loaded.model.decoder.spec;
  kernels::KvLayout layout = models::kv_layout(spec, settings.kv_dtype, settings.block_size);
  layout.side_bytes =
      route_bytes(route_facts(settings.route_capture, route_layers(spec)), settings.block_size);
  auto memory = *Region::create(int64_t(layout.block_stride()) * settings.kv_blocks);
  std::memset(memory->data(), 0xff, size_t(memory->size()));
  return {.decoder = std::make_shared<models::Decoder>(loaded.model.decoder),
          .kernels = *kernels::select_kernels(settings.isa),
          .profile = settings.profile,
          .kv_memory = memory,
          .kv_layout = layout,
          .watchers = settings.watchers,
          .sink = sink};
}

// An engine with a thread of its own, which serves the weights of `loaded`.
inline std::unique_ptr<Engine> start_engine(const Loaded& loaded, EventSink* sink,
                                            const Settings& settings = {}) {
  auto engine = Engine::create(make_options(loaded, settings), make_parts(loaded, settings, sink));
  EXPECT_TRUE(engine.ok()) << engine.status();
  EXPECT_TRUE((*engine)->set_weights(loaded.store->current(), KvPolicy::kRecompute).ok());
  return *std::move(engine);
}

// An engine without a thread, run by hand.
struct Bench {
  explicit Bench(const Loaded& loaded, const Settings& settings = {}) {
    auto made =
        EngineCore::create(make_options(loaded, settings), make_parts(loaded, settings, &sink));
    EXPECT_TRUE(made.ok()) << made.status();
    core = *std::move(made);
    core->set_weights(loaded.store->current(), KvPolicy::kRecompute);
  }

  // Steps until nothing is left, with an audit after each.
  void drain() {
    while (core->step(Admission::kAll)) {
      ++steps;
      const Status audit = core->scheduler().audit();
      ASSERT_TRUE(audit.ok()) << audit;
    }
    core->emit_pending();
  }

  Outcome run(const SequenceRequest& request) {
    core->submit(request);
    drain();
    return sink.get(request.id);
  }

  Collector sink;
  std::unique_ptr<EngineCore> core;
  int64_t steps = 0;
};

inline SequenceRequest make_request(SequenceId id, std::vector<int32_t> prompt, int32_t max_tokens,
                                    int64_t seed = 1) {
  SequenceRequest request;
  request.id = id;
  request.prompt_token_ids = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.sampling.seed = seed;
  return request;
}

inline SequenceRequest greedy_request(SequenceId id, std::vector<int32_t> prompt,
                                      int32_t max_tokens) {
  SequenceRequest request = make_request(id, std::move(prompt), max_tokens);
  request.sampling.temperature = 0.0f;
  return request;
}

// The request that scores what `request` gave.
inline SequenceRequest score_request(SequenceId id, const SequenceRequest& request,
                                     const Outcome& outcome) {
  SequenceRequest scored = request;
  scored.id = id;
  scored.score_only = true;
  scored.output_token_ids = outcome.ids();
  return scored;
}

// Ids that look random, from a small generator of our own.
inline std::vector<int32_t> some_ids(size_t count, int32_t vocab, uint32_t seed) {
  std::vector<int32_t> ids;
  uint32_t state = seed * 747796405u + 2891336453u;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(int32_t((state >> 8) % uint32_t(vocab)));
  }
  return ids;
}

inline void update_digest(DigestStream* stream, const std::vector<TokenRecord>& records) {
  const auto add = [&](const auto& value) { stream->update(std::as_bytes(std::span(&value, 1))); };
  for (const TokenRecord& record : records) {
    add(record.token);
    add(record.logprob);
    for (const TokenLogprob& entry : record.top) {
      add(entry.token);
      add(entry.logprob);
    }
  }
}

// All bits that a trainer sees of an outcome.
inline std::string digest_of_outcome(const Outcome& outcome) {
  DigestStream stream;
  update_digest(&stream, outcome.prompt);
  update_digest(&stream, outcome.tokens);
  stream.update(outcome.routes.ids);
  if (outcome.finish) stream.update(finish_reason_name(outcome.finish->reason));
  return stream.digest().hex();
}

inline void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.ids(), b.ids());
  EXPECT_EQ(digest_of_outcome(a), digest_of_outcome(b));
}

// Says "x" once a sequence of tokens has come; stands for stop strings.
class SequenceWatcher final : public TokenWatcher {
 public:
  SequenceWatcher(std::vector<int32_t> sought, std::string name)
      : sought_(std::move(sought)), name_(std::move(name)) {}
  std::optional<std::string> on_token(int32_t token, bool counts) override {
    seen_.push_back(token);
    const bool ends = seen_.size() >= sought_.size() &&
                      std::equal(sought_.rbegin(), sought_.rend(), seen_.rbegin());
    if (ends && counts) return name_;
    return std::nullopt;
  }

 private:
  std::vector<int32_t> sought_;
  std::vector<int32_t> seen_;
  std::string name_;
};

// A request's stop string "5,6" stands for those tokens.
inline TokenWatcherFactory fake_watchers() {
  return [](const SequenceRequest& request) -> StatusOr<std::unique_ptr<TokenWatcher>> {
    if (request.sampling.stop.empty()) return nullptr;
    if (request.sampling.stop[0] == "bad") return absl::InvalidArgumentError("sampling.stop: bad");
    std::vector<int32_t> ids;
    for (const char c : request.sampling.stop[0]) {
      if (c != ',') ids.push_back(c - '0');
    }
    return std::make_unique<SequenceWatcher>(ids, request.sampling.stop[0]);
  };
}

}  // namespace rlgen::engine::test
