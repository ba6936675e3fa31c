#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/test_engine.h"
#include "exact/checkpoints.h"
#include "exact/digest_file.h"
#include "exact/exact_requests.h"

// The axis of routes: what a request's tokens used, and what comes of routes that are given, does
// not depend on how the engine went about it. Every checkpoint with experts.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

Settings with_routes(Settings settings) {
  settings.route_capture = RouteCapture::kExpertLayers;
  return settings;
}

// Every expert replaced by the next one.
HostTensor rolled_on(const RouteSpan& routes, int32_t experts) {
  std::vector<int64_t> ids = *read_integers(routes.view());
  for (int64_t& id : ids) id = (id + 1) % experts;
  HostTensor rolled(routes.dtype, routes.view().shape);
  EXPECT_TRUE(write_integers(ids, &rolled).ok());
  return rolled;
}

// Rows as a stream brings them: with each token those of every token before it.
class RowStream final : public EventSink {
 public:
  explicit RowStream(const std::vector<SequenceRequest>& requests) {
    for (const SequenceRequest& request : requests) {
      tokens_[request.id] = int32_t(request.prompt_token_ids.size());
    }
  }

  void on_events(EventBatch events) override {
    for (const SequenceEvent& event : events) {
      EXPECT_TRUE(append_routes(event.routes, &rows_[event.id]).ok()) << event.id;
      tokens_[event.id] += int32_t(event.tokens.size());
      if (event.tokens.empty()) continue;
      EXPECT_EQ(rows_[event.id].end(), tokens_[event.id] - 1) << event.id;
    }
  }

  const RouteSpan& rows(SequenceId id) { return rows_[id]; }

 private:
  std::map<SequenceId, RouteSpan> rows_;
  std::map<SequenceId, int32_t> tokens_;  // of prompt and output so far
};

class RoutesExact : public ::testing::TestWithParam<std::string> {
 protected:
  // Half of them replay what they used alone, rolled on by one expert in every slot of every row.
  std::vector<SequenceRequest> half_replayed(SequenceId count = 12) const {
    std::vector<SequenceRequest> requests = within_vocabulary(mixed_requests(count), loaded_);
    const Outcomes alone = run_alone(loaded_, with_routes({}), requests);
    for (SequenceRequest& request : requests) {
      if (request.id % 2 == 0) continue;
      request.routed_experts =
          std::make_shared<const HostTensor>(rolled_on(alone.at(request.id).routes, axis_.experts));
    }
    return requests;
  }

  const Loaded loaded_ = load_checkpoint(GetParam());
  const models::RouteAxis axis_ = models::route_axis(loaded_.model.decoder.spec);
};

TEST_P(RoutesExact, FB219_FB232_AloneAndTogetherOnEveryIsaThreadsAndBudget) {
  const auto requests = half_replayed();
  const Outcomes alone = run_alone(loaded_, with_routes({.isa = "scalar"}), requests);
  expect_whole(alone, requests);
  const std::vector<kernels::Isa> isas = kernels::available_isas();
  for (const kernels::Isa isa : isas) {
    const std::vector<int32_t> budgets =
        isa == isas.back() ? std::vector<int32_t>{1, 7, 16, 512} : std::vector<int32_t>{19};
    for (const int32_t budget : budgets) {
      const Settings settings = with_routes({.isa = std::string(kernels::isa_name(isa)),
                                             .threads = budget == 16 ? 1 : 2,
                                             .budget = budget});
      expect_equal(alone, run_together(loaded_, settings, requests), describe(settings));
    }
  }
  DigestStream all;
  for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  EXPECT_TRUE(report_digest("engine routes " + GetParam(), all.digest()));
}

TEST_P(RoutesExact, FB233_FB235_HitsEvictionsAndPreemptionsShowInNoRow) {
  const auto requests = half_replayed(24);
  const Outcomes alone = run_alone(loaded_, with_routes({}), requests);
  int64_t hits = 0;
  int64_t preemptions = 0;
  for (const int32_t blocks : {512, 40, 11}) {
    const Settings settings = with_routes({.threads = 2, .budget = 37, .kv_blocks = blocks});
    Bench bench(loaded_, settings);
    teach_short_answers(bench);
    for (SequenceId round = 0; round < 2; ++round) {
      for (const SequenceRequest& request : requests) {
        SequenceRequest again = request;
        again.id = request.id + 1000 * round;
        bench.core->submit(again);
      }
      for (int i = 0; i < 20; ++i) bench.core->step(Admission::kAll);
      bench.core->retract_all();
      bench.drain();
      Outcomes found;
      for (const auto& [id, outcome] : alone) found[id] = bench.sink.get(id + 1000 * round);
      expect_equal(alone, found, describe(settings) + ", round " + std::to_string(round));
      expect_whole(found, requests);
    }
    hits += bench.core->metrics().cache_hit_tokens;
    preemptions += bench.core->metrics().preemptions;
  }
  EXPECT_GT(hits, 0);
  EXPECT_GT(preemptions, 0);
}

// Of blocks for a handful of short sequences, since many engines are made.
Settings in_small_pool(Settings settings) {
  settings.kv_blocks = 48;
  return with_routes(settings);
}

// What happens to a sequence on its way, counted by its tokens.
struct Turns {
  bool flip = true;       // at the sixth token other weights come, and KV is kept
  size_t retract_at = 0;  // with so many tokens everybody's KV is dropped; 0: never
  bool company = false;   // others come with the flip
};

class RoutesThroughFlips : public RoutesExact {
 protected:
  RoutesThroughFlips() {
    SequenceRequest asked = within_vocabulary({mixed_request(3)}, loaded_)[0];
    asked.sampling = {.max_tokens = 20, .ignore_eos = true, .seed = 5};
    SequenceRequest led = asked;
    led.id = 4;
    RouteSpan start = run_alone(loaded_, in_small_pool({}), {asked}).at(asked.id).routes;
    start.ids.resize(start.row_bytes() * (asked.prompt_token_ids.size() + 3));
    led.routed_experts = std::make_shared<const HostTensor>(rolled_on(start, axis_.experts));
    requests_ = {asked, led};
  }

  Outcomes run(const SequenceRequest& asked, const Settings& settings, const Turns& turns) const {
    Bench bench(loaded_, settings);
    bench.core->submit(asked);
    const auto step_to = [&](size_t tokens) {
      while (bench.sink.get(asked.id).tokens.size() < tokens) bench.core->step(Admission::kAll);
    };
    step_to(6);
    if (turns.company) {
      for (SequenceRequest& request : within_vocabulary(mixed_requests(3), loaded_)) {
        bench.core->submit(std::move(request));
      }
    }
    if (turns.flip) bench.core->set_weights(other_, KvPolicy::kKeep);
    if (turns.retract_at > 0) {
      step_to(turns.retract_at);
      bench.core->retract_all();
    }
    bench.drain();
    return {{asked.id, bench.sink.get(asked.id)}};
  }

  // What the request gives where `weights` make all of it.
  Outcomes fresh(const SequenceRequest& asked,
                 const std::shared_ptr<const models::WeightSet>& weights) const {
    Bench bench(loaded_, in_small_pool({.isa = "scalar"}));
    bench.core->set_weights(weights, KvPolicy::kRecompute);
    return {{asked.id, bench.run(asked)}};
  }

  const std::shared_ptr<const models::WeightSet> other_ = loaded_.other_weights(1, 2);
  // The same prompt twice: its routes are the router's, or start with others and go on with them.
  std::vector<SequenceRequest> requests_;
};

// Two runs of one request differ; `why` says in what they should.
void expect_other(const Outcomes& one, const Outcomes& other, const std::string& why) {
  const auto& [id, outcome] = *one.begin();
  EXPECT_NE(digest_of_outcome(outcome), digest_of_outcome(other.at(id)))
      << "sequence " << id << ": " << why;
}

// The flip is part of what a sequence is: at the same token it gives the same rows however the rest
// went.
TEST_P(RoutesThroughFlips, AnUpdateThatKeepsKvKeepsRowsInAnyCompany) {
  for (const SequenceRequest& asked : requests_) {
    const Outcomes whole = run(asked, in_small_pool({.isa = "scalar"}), {});
    expect_whole(whole, {asked});
    expect_other(whole, run(asked, in_small_pool({}), {.flip = false}), "the flip has no effect");
    expect_other(whole, fresh(asked, other_), "nothing is left of the old weights");
    for (const int32_t budget : {1, 16, 512}) {
      const Settings settings = in_small_pool({.threads = 2, .budget = budget});
      expect_equal(whole, run(asked, settings, {.company = true}), describe(settings));
    }
  }
}

// KV that is dropped behind the flip is rebuilt by the new weights; what was delivered stays.
TEST_P(RoutesThroughFlips, RowsBehindALaterPreemptionDoNotDependOnChunks) {
  for (const SequenceRequest& asked : requests_) {
    const Outcomes kept = run(asked, in_small_pool({.isa = "scalar"}), {});
    const Outcomes rebuilt = run(asked, in_small_pool({.isa = "scalar"}), {.retract_at = 9});
    expect_whole(rebuilt, {asked});
    expect_other(rebuilt, kept, "the preemption has no effect");
    const Outcome& outcome = rebuilt.at(asked.id);
    const auto delivered =
        ptrdiff_t(outcome.routes.row_bytes()) * ptrdiff_t(asked.prompt_token_ids.size() + 8);
    EXPECT_TRUE(std::equal(outcome.routes.ids.begin(), outcome.routes.ids.begin() + delivered,
                           kept.at(asked.id).routes.ids.begin()));
    for (const int32_t budget : {5, 64}) {
      const Settings settings = in_small_pool({.threads = 2, .budget = budget});
      expect_equal(rebuilt, run(asked, settings, {.retract_at = 9, .company = true}),
                   describe(settings));
    }
  }
}

// A prompt that is under way starts again, however often: no row is of the weights before.
TEST_P(RoutesThroughFlips, FlipsInAPrefillLeaveTheRowsOfTheNewWeights) {
  const auto first = loaded_.store->current();
  for (const SequenceRequest& asked : requests_) {
    ASSERT_GT(asked.prompt_token_ids.size(), 8u);
    const Outcomes by_first = fresh(asked, first);
    const Outcomes by_other = fresh(asked, other_);
    expect_other(by_first, by_other, "the weights are the same");
    Bench once(loaded_, in_small_pool({.threads = 2, .budget = 4}));
    once.core->submit(asked);
    once.core->step(Admission::kAll);
    once.core->set_weights(other_, KvPolicy::kKeep);
    once.drain();
    expect_equal(by_other, {{asked.id, once.sink.get(asked.id)}}, "one flip");
    Bench twice(loaded_, in_small_pool({.threads = 2, .budget = 4}));
    twice.core->submit(asked);
    for (const auto& weights : {other_, first}) {
      twice.core->step(Admission::kAll);
      EXPECT_TRUE(twice.sink.get(asked.id).tokens.empty());
      twice.core->set_weights(weights, KvPolicy::kKeep);
    }
    twice.drain();
    expect_equal(by_first, {{asked.id, twice.sink.get(asked.id)}}, "two flips");
  }
}

// From the first row on or from a later one, whatever is preempted meanwhile.
TEST_P(RoutesExact, StreamedRowsComeWithTheirTokens) {
  auto requests = half_replayed();
  const Outcomes alone = run_alone(loaded_, with_routes({}), requests);
  for (SequenceRequest& request : requests) {
    if (request.id % 3 == 0) continue;
    request.sampling.routed_experts_prompt_start = int32_t(request.prompt_token_ids.size()) / 2;
  }
  for (const int32_t budget : {5, 64}) {
    const Settings settings = with_routes({.threads = 2, .budget = budget, .kv_blocks = 40});
    RowStream stream(requests);
    auto core = *EngineCore::create(make_options(loaded_, settings),
                                    make_parts(loaded_, settings, &stream));
    core->set_weights(loaded_.store->current(), KvPolicy::kRecompute);
    for (const SequenceRequest& request : requests) core->submit(request);
    for (int i = 0; i < 9; ++i) core->step(Admission::kAll);
    core->retract_all();
    while (core->step(Admission::kAll)) {
    }
    for (const SequenceRequest& request : requests) {
      const RouteSpan& rows = stream.rows(request.id);
      RouteSpan expected = alone.at(request.id).routes;
      expected.first = request.sampling.routed_experts_prompt_start;
      expected.ids.erase(expected.ids.begin(),
                         expected.ids.begin() + ptrdiff_t(expected.row_bytes()) * expected.first);
      EXPECT_EQ(rows, expected) << "sequence " << request.id << ", budget " << budget;
    }
  }
}

TEST_P(RoutesExact, ScoresHaveTheRowsOfTheGeneration) {
  std::vector<SequenceRequest> requests = half_replayed();
  for (SequenceRequest& request : requests) request.sampling.prompt_logprobs.reset();
  const Outcomes generated = run_together(loaded_, with_routes({.threads = 2}), requests);
  std::vector<SequenceRequest> scored;
  for (const SequenceRequest& request : requests) {
    scored.push_back(score_request(request.id, request, generated.at(request.id)));
    if (!request.routed_experts) continue;
    scored.back().routed_experts = std::make_shared<const HostTensor>(
        HostTensor::copy_of(generated.at(request.id).routes.view()));
  }
  const Settings settings = with_routes({.threads = 2, .budget = 23, .kv_blocks = 40});
  const Outcomes scores = run_together(loaded_, settings, scored);
  for (const auto& [id, outcome] : generated) {
    EXPECT_EQ(scores.at(id).routes, outcome.routes) << "sequence " << id;
    EXPECT_EQ(scores.at(id).ids(), outcome.ids()) << "sequence " << id;
  }
}

// A profile that rounds where the checkpoint has the weights for it.
TEST_P(RoutesExact, HalfWidthKvAndTheRoundedProfilesAreExactToo) {
  const auto requests = half_replayed();
  const models::Decoder& decoder = loaded_.model.decoder;
  const DType stored = decoder.table->slots[size_t(decoder.slots.head)].dtype;
  for (const kernels::Profile profile : kernels::kProfiles) {
    if (profile != kernels::Profile::kFloat32 && stored != DType::kBFloat16) continue;
    Settings settings =
        with_routes({.isa = "scalar", .kv_dtype = DType::kBFloat16, .profile = profile});
    const Outcomes alone = run_alone(loaded_, settings, requests);
    settings.isa = "auto";
    settings.threads = 2;
    settings.budget = 19;
    settings.kv_blocks = 24;
    expect_equal(alone, run_together(loaded_, settings, requests), describe(settings));
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RoutesExact, ::testing::ValuesIn(sparse_checkpoints()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Checkpoints, RoutesThroughFlips, ::testing::ValuesIn(sparse_checkpoints()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rlgen::engine
