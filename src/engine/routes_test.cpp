#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "engine/core.h"
#include "engine/engine.h"
#include "engine/test_engine.h"

// Routes of a real model with experts: what is recorded, kept and delivered.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

Settings recording() {
  Settings settings;
  settings.route_capture = RouteCapture::kExpertLayers;
  return settings;
}

class RoutesTest : public ::testing::Test {
 protected:
  const Loaded loaded = load_checkpoint("qwen3_moe");
  const int32_t vocab = loaded.model.decoder.spec.vocab_rows;

  Ids prompt_of(size_t count, uint32_t seed) const { return some_ids(count, vocab, seed); }

  SequenceRequest request(SequenceId id, size_t prompt, int32_t max_tokens, uint32_t seed) const {
    SequenceRequest request = make_request(id, prompt_of(prompt, seed), max_tokens, 100 + seed);
    request.sampling.ignore_eos = true;
    return request;
  }

  // What the request gives alone, in one piece, where nothing is cached.
  Outcome cold(const SequenceRequest& request) const {
    Settings settings = recording();
    settings.prefix_caching = false;
    return Bench(loaded, settings).run(request);
  }
};

// Every row but the last token's, whatever ended the sequence.
void expect_complete(const SequenceRequest& request, const Outcome& outcome) {
  EXPECT_EQ(outcome.routes.first, 0);
  EXPECT_EQ(size_t(outcome.routes.rows()),
            request.prompt_token_ids.size() + outcome.tokens.size() - 1);
}

TEST_F(RoutesTest, RowsHaveTheShapeOfTheModelAndDistinctExperts) {
  const models::RouteAxis axis = models::route_axis(loaded.model.decoder.spec);
  const Outcome outcome = cold(request(1, 20, 6, 1));
  EXPECT_EQ(outcome.routes.layers, axis.layers);
  EXPECT_EQ(outcome.routes.top_k, axis.top_k);
  EXPECT_EQ(outcome.routes.dtype, DType::kInt8);
  EXPECT_TRUE(check_experts(outcome.routes, axis.experts).ok());
  std::set<int64_t> met;
  const std::vector<int64_t> ids = *read_integers(outcome.routes.view());
  for (size_t at = 0; at < ids.size(); at += size_t(axis.top_k)) {
    const std::set<int64_t> row(ids.begin() + ptrdiff_t(at),
                                ids.begin() + ptrdiff_t(at) + axis.top_k);
    EXPECT_EQ(row.size(), size_t(axis.top_k));
    EXPECT_GE(*row.begin(), 0);
    met.insert(row.begin(), row.end());
  }
  EXPECT_GT(met.size(), size_t(axis.top_k));
}

TEST_F(RoutesTest, FB236_EveryEndGivesARowLessThanTokens) {
  SequenceRequest by_length = request(1, 5, 3, 2);
  expect_complete(by_length, cold(by_length));

  SequenceRequest by_token = request(2, 5, 9, 3);
  by_token.sampling.allowed_token_ids = {{7}};
  by_token.sampling.stop_token_ids = {7};
  const Outcome stopped = cold(by_token);
  EXPECT_EQ(stopped.finish->reason, FinishReason::kStop);
  expect_complete(by_token, stopped);

  SequenceRequest by_string = request(3, 5, 9, 4);
  by_string.sampling.allowed_token_ids = {{7}};
  by_string.sampling.stop = {"7,7"};
  Settings settings = recording();
  settings.watchers = fake_watchers();
  const Outcome ended = Bench(loaded, settings).run(by_string);
  EXPECT_EQ(ended.tokens.size(), 2u);
  expect_complete(by_string, ended);

  SequenceRequest by_score = request(4, 5, 9, 5);
  by_score.score_only = true;
  by_score.output_token_ids = {1, 2, 3};
  expect_complete(by_score, cold(by_score));
}

TEST_F(RoutesTest, FB236_AnAbortGivesWhatWasComputed) {
  Bench bench(loaded, recording());
  const SequenceRequest early = request(1, 50, 20, 6);
  bench.core->submit(early);
  for (int i = 0; i < 5; ++i) bench.core->step(Admission::kAll);
  bench.core->cancel(1);
  bench.core->emit_pending();
  EXPECT_EQ(bench.sink.get(1).tokens.size(), 5u);
  expect_complete(early, bench.sink.get(1));
  Outcome whole = cold(early);
  whole.routes.ids.resize(bench.sink.get(1).routes.ids.size());
  EXPECT_EQ(bench.sink.get(1).routes, whole.routes);

  Settings settings = recording();
  settings.budget = 8;
  Bench slow(loaded, settings);
  slow.core->submit(early);
  for (int i = 0; i < 2; ++i) slow.core->step(Admission::kAll);
  slow.core->cancel(1);
  slow.core->emit_pending();
  EXPECT_EQ(slow.sink.get(1).routes.rows(), 16);
}

TEST_F(RoutesTest, FB232_ChunksAndPlacesOfBlocksChangeNoRow) {
  const SequenceRequest asked = request(1, 90, 12, 7);
  const Outcome whole = cold(asked);
  expect_complete(asked, whole);
  for (const int32_t budget : {1, 7, 16, 67}) {
    for (const int32_t block_size : {16, 48}) {
      Settings settings = recording();
      settings.budget = budget;
      settings.block_size = block_size;
      Bench bench(loaded, settings);
      bench.core->submit(request(2, 33, 30, 8));
      bench.core->submit(asked);
      bench.drain();
      EXPECT_EQ(bench.sink.get(1).routes, whole.routes) << budget << ", " << block_size;
      expect_same_bits(bench.sink.get(1), whole);
    }
  }
}

TEST_F(RoutesTest, FB233_APrefixHitDeliversEveryRow) {
  Bench bench(loaded, recording());
  SequenceRequest asked = request(1, 50, 6, 9);
  const Outcome first = bench.run(asked);
  asked.id = 2;
  const Outcome second = bench.run(asked);
  EXPECT_EQ(second.finish->cached_tokens, 48);
  EXPECT_EQ(first.routes, second.routes);
  expect_complete(asked, second);
  expect_same_bits(second, cold(asked));
}

TEST_F(RoutesTest, OutputBlocksDeliverTheirRowsToTheNextTurn) {
  Bench bench(loaded, recording());
  const Outcome made = bench.run(request(1, 20, 24, 10));
  Ids turn = prompt_of(20, 10);
  for (const int32_t id : made.ids()) turn.push_back(id);
  turn.push_back(3);
  SequenceRequest next = make_request(2, turn, 4);
  next.sampling.ignore_eos = true;
  const Outcome outcome = bench.run(next);
  EXPECT_EQ(outcome.finish->cached_tokens, 32);
  EXPECT_EQ(outcome.routes, cold(next).routes);
}

TEST_F(RoutesTest, FB235_PreemptionLosesNoRow) {
  const SequenceRequest asked = request(1, 40, 20, 11);
  const Outcome whole = cold(asked);
  for (const int steps : {1, 2, 9}) {
    Settings settings = recording();
    settings.budget = 33;
    settings.prefix_caching = steps != 2;
    Bench bench(loaded, settings);
    bench.core->submit(asked);
    for (int i = 0; i < steps; ++i) bench.core->step(Admission::kAll);
    bench.core->retract_all();
    bench.drain();
    EXPECT_EQ(bench.sink.get(1).routes, whole.routes) << steps;
    expect_same_bits(bench.sink.get(1), whole);
  }
}

TEST_F(RoutesTest, SamplesOfOnePromptInATinyPoolHaveAllTheirRows) {
  for (const int32_t blocks : {5, 9, 64}) {
    Settings settings = recording();
    settings.budget = 23;
    settings.kv_blocks = blocks;
    Bench bench(loaded, settings);
    for (SequenceId id = 0; id < 6; ++id) {
      SequenceRequest sample = request(id, 40, 20, 12);
      sample.sample_index = int32_t(id);
      bench.core->submit(sample);
    }
    bench.drain();
    for (SequenceId id = 0; id < 6; ++id) {
      SequenceRequest sample = request(id, 40, 20, 12);
      sample.sample_index = int32_t(id);
      expect_complete(sample, bench.sink.get(id));
      expect_same_bits(bench.sink.get(id), cold(sample));
    }
  }
}

// Rows come with the tokens that follow them: the prompt's with the first one.
TEST_F(RoutesTest, RowsComeWithTheirTokens) {
  struct Rows final : EventSink {
    void on_events(EventBatch events) override {
      for (const SequenceEvent& event : events) {
        rows.push_back(event.routes.rows());
        first.push_back(event.routes.first);
      }
    }
    Ids rows, first;
  } sink;
  auto core = *EngineCore::create(make_options(loaded, recording()),
                                  make_parts(loaded, recording(), &sink));
  core->set_weights(loaded.store->current(), KvPolicy::kRecompute);
  core->submit(request(1, 20, 4, 13));
  while (core->step(Admission::kAll)) {
  }
  EXPECT_THAT(sink.rows, ::testing::ElementsAre(20, 1, 1, 1));
  EXPECT_THAT(sink.first, ::testing::ElementsAre(0, 20, 21, 22));
}

TEST_F(RoutesTest, RowsBeginWhereTheRequestSays) {
  SequenceRequest asked = request(1, 30, 8, 14);
  const Outcome whole = cold(asked);
  for (const int32_t start : {1, 17, 29, 30}) {
    asked.sampling.routed_experts_prompt_start = start;
    const Outcome rest = cold(asked);
    EXPECT_EQ(rest.routes.first, start);
    RouteSpan expected = whole.routes;
    expected.first = start;
    expected.ids.erase(expected.ids.begin(),
                       expected.ids.begin() + ptrdiff_t(expected.row_bytes()) * start);
    EXPECT_EQ(rest.routes, expected) << start;
  }
  asked.sampling.routed_experts_prompt_start = 31;
  EXPECT_THAT(message_of(cold(asked).finish->error),
              HasSubstr("sampling: routed_experts_prompt_start is 31; it must be at most 30"));
}

TEST_F(RoutesTest, AContinuedSequenceHasTheRowsOfTheWhole) {
  SequenceRequest asked = request(1, 30, 12, 15);
  const Outcome whole = cold(asked);
  const Ids made = whole.ids();
  asked.output_token_ids.assign(made.begin(), made.begin() + 5);
  EXPECT_EQ(cold(asked).routes, whole.routes);
  asked.sampling.routed_experts_prompt_start = 34;
  EXPECT_EQ(cold(asked).routes.rows(), whole.routes.rows() - 34);
}

TEST_F(RoutesTest, AScoreGivesTheRowsOfTheGeneration) {
  const SequenceRequest asked = request(1, 30, 12, 16);
  const Outcome whole = cold(asked);
  EXPECT_EQ(cold(score_request(2, asked, whole)).routes, whole.routes);
}

TEST_F(RoutesTest, AllLayersAreThoseWithExpertsAndDummies) {
  const SequenceRequest asked = request(1, 20, 4, 17);
  const Outcome experts = cold(asked);
  Settings settings = recording();
  settings.route_capture = RouteCapture::kAllLayers;
  const Outcome all = Bench(loaded, settings).run(asked);
  const RouteLayers layers = route_layers(loaded.model.decoder.spec);
  ASSERT_EQ(all.routes.layers, int32_t(layers.place.size()));
  ASSERT_EQ(all.routes.rows(), experts.routes.rows());
  const std::vector<int64_t> found = *read_integers(all.routes.view());
  const std::vector<int64_t> known = *read_integers(experts.routes.view());
  size_t at = 0;
  for (size_t row = 0; row < size_t(all.routes.rows()); ++row) {
    for (const int32_t place : layers.place) {
      for (size_t k = 0; k < size_t(layers.top_k); ++k) {
        const size_t from =
            (row * size_t(layers.expert_layers) + size_t(place)) * size_t(layers.top_k) + k;
        EXPECT_EQ(found[at++], place < 0 ? int64_t(k) : known[from]);
      }
    }
  }
}

TEST_F(RoutesTest, AnUpdateThatKeepsKvKeepsEveryRow) {
  const SequenceRequest asked = request(1, 40, 20, 18);
  const Outcome whole = cold(asked);
  for (const KvPolicy policy : {KvPolicy::kKeep, KvPolicy::kRecompute}) {
    Bench bench(loaded, recording());
    bench.core->submit(asked);
    for (int i = 0; i < 6; ++i) bench.core->step(Admission::kAll);
    bench.core->set_weights(loaded.other_weights(1, 2), policy);
    bench.drain();
    const Outcome mixed = bench.sink.get(1);
    expect_complete(asked, mixed);
    // Rows 0 .. 44 were delivered with the first six tokens, under the old weights.
    const auto delivered = ptrdiff_t(mixed.routes.row_bytes()) * 45;
    EXPECT_TRUE(std::equal(mixed.routes.ids.begin(), mixed.routes.ids.begin() + delivered,
                           whole.routes.ids.begin()));
  }
}

TEST_F(RoutesTest, PausesLoseNoRow) {
  const SequenceRequest asked = request(1, 40, 60, 19);
  const Outcome whole = cold(asked);
  Collector sink;
  sink.set_slow(true);
  const auto engine = start_engine(loaded, &sink, recording());
  ASSERT_TRUE(engine->submit({asked}).ok());
  size_t seen = 1;
  for (const PauseMode mode : {PauseMode::kKeep, PauseMode::kRetract}) {
    sink.wait_for_tokens(1, seen += 5);
    ASSERT_TRUE(engine->pause(mode).ok());
    ASSERT_TRUE(engine->resume().ok());
  }
  expect_same_bits(sink.wait(1), whole);
  EXPECT_EQ(sink.get(1).routes, whole.routes);
}

TEST_F(RoutesTest, SleepForgetsNoDeliveredRow) {
  const SequenceRequest asked = request(1, 40, 60, 20);
  const Outcome whole = cold(asked);
  Collector sink;
  sink.set_slow(true);
  const auto engine = start_engine(loaded, &sink, recording());
  ASSERT_TRUE(engine->submit({asked}).ok());
  sink.wait_for_tokens(1, 5);
  ASSERT_TRUE(engine->sleep({.weights = false, .kv_cache = true}).ok());
  ASSERT_TRUE(engine->wake({.weights = false, .kv_cache = true}, nullptr).ok());
  expect_same_bits(sink.wait(1), whole);
  EXPECT_EQ(sink.get(1).routes, whole.routes);
}

TEST_F(RoutesTest, OffRecordsNothingAndSaysSo) {
  SequenceRequest asked = request(1, 20, 4, 21);
  const Outcome outcome = Bench(loaded).run(asked);
  EXPECT_FALSE(outcome.routes.present());
  EXPECT_EQ(outcome.ids(), cold(asked).ids());
  asked.sampling.routed_experts_prompt_start = 3;
  EXPECT_THAT(message_of(Bench(loaded).run(asked).finish->error),
              HasSubstr("without enable_return_routed_experts"));
}

TEST(Routes, FB237_ADenseModelIsRefused) {
  const Loaded dense = load_checkpoint("llama");
  Collector sink;
  const auto engine =
      Engine::create(make_options(dense, recording()), make_parts(dense, recording(), &sink));
  EXPECT_THAT(message_of(engine.status()), HasSubstr("no experts"));
}

}  // namespace
}  // namespace rlgen::engine
