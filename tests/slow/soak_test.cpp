#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>

#include "engine/test_engine.h"
#include "slow/soak_requests.h"

// Many requests of every shape through far too little memory: nothing is lost, nothing leaks, and
// every answer is that of an engine that has nothing else to do.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

constexpr double kShare = 0.03;  // of the blocks that those in flight may need
constexpr int32_t kChecked = 500;

// RLGEN_SOAK_REQUESTS, or a number for every day.
int32_t number_of_requests() {
  const char* text = std::getenv("RLGEN_SOAK_REQUESTS");
  return text == nullptr ? 500 : std::atoi(text);
}

// Bytes that are allocated and not freed. A sanitizer's allocator says nothing.
int64_t live_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
}

// Keeps the answers that are checked later, and of all others only that they came and ended once.
class SoakSink final : public EventSink {
 public:
  explicit SoakSink(int32_t every) : every_(SequenceId(every)) {}

  void on_events(EventBatch events) override {
    for (SequenceEvent& event : events) {
      tokens += int64_t(event.tokens.size());
      if (event.id % every_ == 0) keep(event);
      if (!event.finish) continue;
      EXPECT_TRUE(ended.emplace(event.id, event.finish->reason).second) << event.id;
    }
  }

  int64_t tokens = 0;
  std::unordered_map<SequenceId, FinishReason> ended;
  std::map<SequenceId, Outcome> kept;

 private:
  void keep(SequenceEvent& event) {
    Outcome& outcome = kept[event.id];
    EXPECT_FALSE(outcome.finish.has_value()) << event.id;
    outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (!event.prompt.empty()) outcome.prompt = std::move(event.prompt);
    outcome.finish = std::move(event.finish);
  }

  const SequenceId every_;
};

class Soak {
 public:
  Soak(const Loaded& loaded, std::vector<SequenceRequest> requests, int32_t in_flight)
      : loaded_(loaded),
        requests_(std::move(requests)),
        in_flight_(in_flight),
        sink_(std::max(1, int32_t(requests_.size()) / kChecked)) {
    int64_t wanted = 0;
    for (const SequenceRequest& request : requests_) wanted += blocks_of(request);
    const double each = double(wanted) / double(requests_.size());
    settings_ = {.threads = 2,
                 .max_num_seqs = 256,
                 .budget = 200,
                 .wanted = 300,
                 .kv_blocks = int32_t(each * in_flight_ * kShare * 0.9)};
    core_ = *EngineCore::create(make_options(loaded_, settings_),
                                make_parts(loaded_, settings_, &sink_));
    core_->set_weights(loaded_.store->current(), KvPolicy::kRecompute);
  }

  void run() {
    size_t next = 0;
    while (next < requests_.size() || !left().empty()) {
      next = submit(next);
      if (dice_.one_in(8)) cancel_one(next);
      if (dice_.one_in(100)) core_->retract_all();
      step();
      int64_t& most = next * 2 < requests_.size() ? early_ : late_;
      most = std::max(most, live_bytes());
    }
  }

  void check_nothing_is_left() {
    EXPECT_EQ(sink_.ended.size(), requests_.size());
    const ShardMetrics metrics = core_->metrics();
    EXPECT_EQ(metrics.running + metrics.waiting, 0);
    EXPECT_EQ(metrics.kv_blocks_used, 0);
    if (early_ > 0) {
      EXPECT_LE(late_ - early_, int64_t{3} << 20) << early_ << " bytes early, " << late_ << " late";
    }
    // Every way to end, and all the crowding that this is about.
    std::map<FinishReason, int> reasons;
    for (const auto& [id, reason] : sink_.ended) ++reasons[reason];
    EXPECT_EQ(reasons.size(), 4u);
    EXPECT_GT(metrics.cache_hit_tokens, 0);
    EXPECT_GT(metrics.cache_evictions, 0);
    EXPECT_GT(metrics.preemptions, int64_t(requests_.size()) / 100);
    std::printf(
        "soak: %zu requests, %d blocks (at most %.1f%% of what was in flight), %lld tokens, "
        "%lld steps, %lld preemptions, %lld cached tokens, %lld evictions, %d aborted, "
        "%.1f and %.1f MB at most\n",
        requests_.size(), settings_.kv_blocks, 100.0 * settings_.kv_blocks / double(most_wanted_),
        static_cast<long long>(sink_.tokens), static_cast<long long>(core_->steps()),
        static_cast<long long>(metrics.preemptions),
        static_cast<long long>(metrics.cache_hit_tokens),
        static_cast<long long>(metrics.cache_evictions), reasons[FinishReason::kAbort],
        double(early_) / 1e6, double(late_) / 1e6);
    EXPECT_LE(settings_.kv_blocks, kShare * double(most_wanted_));
  }

  // Alone on an engine that keeps nothing from the one before. What was cancelled is a beginning.
  void check_answers() {
    Bench idle(loaded_, {.prefix_caching = false});
    int whole = 0;
    for (const auto& [id, outcome] : sink_.kept) {
      Outcome alone = idle.run(requests_[id]);
      if (outcome.finish->reason == FinishReason::kAbort) {
        ASSERT_LE(outcome.tokens.size(), alone.tokens.size()) << id;
        alone.tokens.resize(outcome.tokens.size());
        alone.finish = outcome.finish;
        if (outcome.prompt.empty()) alone.prompt.clear();
      } else {
        ++whole;
        EXPECT_EQ(message_of(outcome.finish->error), message_of(alone.finish->error)) << id;
      }
      ASSERT_EQ(digest_of_outcome(outcome), digest_of_outcome(alone)) << id;
    }
    EXPECT_GE(whole, kChecked * 2 / 3);
  }

 private:
  int64_t blocks_of(const SequenceRequest& request) const {
    const size_t made = request.score_only ? 0 : size_t(request.sampling.max_tokens.value_or(0));
    const size_t most = std::min<size_t>(
        request.prompt_token_ids.size() + request.output_token_ids.size() + made, 128);
    return int64_t((most + 14) / 16);
  }

  std::vector<SequenceId> left() const {
    std::vector<SequenceId> ids;
    for (const auto& group : {core_->scheduler().running(), core_->scheduler().waiting()}) {
      for (const Sequence* sequence : group) ids.push_back(sequence->request.id);
    }
    return ids;
  }

  // Comes in bursts, whenever the queue has sunk.
  size_t submit(size_t next) {
    const auto crowd = int32_t(core_->scheduler().num_running() + core_->scheduler().num_waiting());
    if (crowd > in_flight_ - in_flight_ / 8) return next;
    for (int32_t i = crowd; i < in_flight_ && next < requests_.size(); ++i) {
      core_->submit(requests_[next++]);
    }
    int64_t wanted = 0;
    for (const SequenceId id : left()) wanted += blocks_of(requests_[id]);
    most_wanted_ = std::max(most_wanted_, wanted);
    return next;
  }

  // Any of the requests, in flight or not.
  void cancel_one(size_t submitted) {
    const auto ids = left();
    if (ids.empty()) return;
    core_->cancel(ids[size_t(dice_.roll(int32_t(ids.size())))]);
    core_->cancel(SequenceId(submitted) + 1'000'000);
  }

  void step() {
    core_->step(dice_.one_in(50) ? Admission::kStarted : Admission::kAll);
    core_->emit_pending();
    const Status audit = core_->scheduler().audit();
    ASSERT_TRUE(audit.ok()) << audit;
  }

  const Loaded& loaded_;
  const std::vector<SequenceRequest> requests_;
  const int32_t in_flight_;
  Settings settings_;
  SoakSink sink_;
  std::unique_ptr<EngineCore> core_;
  Dice dice_{77};
  int64_t most_wanted_ = 0;
  int64_t early_ = 0;  // most live bytes in the first half
  int64_t late_ = 0;   // and in the second
};

TEST(Soak, NothingIsLostAndEveryAnswerIsThatOfAnIdleEngine) {
  const int32_t count = number_of_requests();
  const Loaded loaded = load_checkpoint("llama");
  Soak soak(loaded, soak_requests(count), std::min(2000, count * 9 / 10));
  soak.run();
  if (::testing::Test::HasFatalFailure()) return;
  soak.check_nothing_is_left();
  soak.check_answers();
}

}  // namespace
}  // namespace rlgen::engine
