#include <gmock/gmock.h>

#include <algorithm>

#include "engine/core.h"
#include "engine/test_engine.h"

// Routes that a request brings along.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

Settings replay_settings(RouteCapture capture = RouteCapture::kExpertLayers) {
  Settings settings;
  settings.route_capture = capture;
  return settings;
}

// Routes as a request takes them.
GivenRoutes given(const RouteSpan& routes) {
  return std::make_shared<const HostTensor>(HostTensor::copy_of(routes.view()));
}

// Every route with its first expert changed for one that it does not name.
RouteSpan altered(RouteSpan routes, int32_t experts) {
  const std::vector<int64_t> ids = *read_integers(routes.view());
  const auto top_k = size_t(routes.top_k);
  for (size_t at = 0; at < ids.size(); at += top_k) {
    int64_t other = (ids[at] + 1) % experts;
    while (std::count(ids.begin() + ptrdiff_t(at), ids.begin() + ptrdiff_t(at + top_k), other)) {
      other = (other + 1) % experts;
    }
    routes.ids[at] = std::byte(other);
  }
  return routes;
}

class ReplayTest : public ::testing::Test {
 protected:
  SequenceRequest request(SequenceId id, size_t prompt, int32_t max_tokens, uint32_t seed) const {
    SequenceRequest request = make_request(
        id, some_ids(prompt, loaded.model.decoder.spec.vocab_rows, seed), max_tokens, 100 + seed);
    request.sampling.ignore_eos = true;
    return request;
  }

  Outcome run(const SequenceRequest& request, const Settings& settings = replay_settings()) const {
    return Bench(loaded, settings).run(request);
  }

  // A request whose routes are not those that the router would choose.
  SequenceRequest odd_request(SequenceId id, size_t prompt, int32_t max_tokens,
                              uint32_t seed) const {
    SequenceRequest odd = request(id, prompt, max_tokens, seed);
    odd.routed_experts = given(altered(run(odd).routes, axis.experts));
    return odd;
  }

  const Loaded loaded = load_checkpoint("qwen3_moe");
  const models::RouteAxis axis = models::route_axis(loaded.model.decoder.spec);
};

TEST_F(ReplayTest, RecordedRoutesGiveTheSameBits) {
  for (const RouteCapture capture : {RouteCapture::kExpertLayers, RouteCapture::kAllLayers}) {
    SequenceRequest asked = request(1, 40, 12, 1);
    const Outcome free = run(asked, replay_settings(capture));
    asked.routed_experts = given(free.routes);
    const Outcome replayed = run(asked, replay_settings(capture));
    EXPECT_EQ(replayed.routes, free.routes);
    expect_same_bits(replayed, free);
    const SequenceRequest scored = score_request(2, asked, free);
    SequenceRequest unguided = scored;
    unguided.routed_experts = nullptr;
    expect_same_bits(run(scored, replay_settings(capture)),
                     run(unguided, replay_settings(capture)));
    expect_same_bits(run(asked, Settings()), run(request(1, 40, 12, 1), Settings()));
  }
}

TEST_F(ReplayTest, AlteredRoutesAreUsedAndRecorded) {
  const SequenceRequest free = request(1, 40, 12, 2);
  const SequenceRequest odd = odd_request(1, 40, 12, 2);
  const Outcome outcome = run(odd);
  EXPECT_EQ(outcome.routes, altered(run(free).routes, axis.experts));
  EXPECT_NE(digest_of_outcome(outcome), digest_of_outcome(run(free)));
  EXPECT_NE(outcome.tokens[0].logprob, run(free).tokens[0].logprob);
}

TEST_F(ReplayTest, NoBitOfAReplayDependsOnChunksBatchOrPreemption) {
  const SequenceRequest odd = odd_request(1, 70, 12, 3);
  const Outcome whole = run(odd);
  for (const int32_t budget : {1, 7, 16, 67}) {
    Settings settings = replay_settings();
    settings.budget = budget;
    settings.threads = 2;
    Bench bench(loaded, settings);
    bench.core->submit(request(2, 70, 30, 3));
    bench.core->submit(odd);
    for (int i = 0; i < 9; ++i) bench.core->step(Admission::kAll);
    bench.core->retract_all();
    bench.drain();
    expect_same_bits(bench.sink.get(1), whole);
    expect_same_bits(bench.sink.get(2), run(request(2, 70, 30, 3)));
  }
}

// A prompt shorter than a block is all tail.
TEST_F(ReplayTest, ATailOfGivenRoutesIsNotCopiedAndNeitherIsOneForThem) {
  const SequenceRequest odd = odd_request(1, 10, 8, 9);
  SequenceRequest odd_again = odd;
  odd_again.id = 3;
  Bench bench(loaded, replay_settings());
  for (const SequenceRequest& asked : {odd, request(2, 10, 8, 9), odd_again}) {
    bench.core->submit(asked);
    bench.core->step(Admission::kAll);
  }
  bench.drain();
  for (const SequenceId id : {1, 2, 3}) EXPECT_EQ(bench.sink.get(id).finish->cached_tokens, 0);
  expect_same_bits(bench.sink.get(1), run(odd));
  expect_same_bits(bench.sink.get(2), run(request(2, 10, 8, 9)));
  expect_same_bits(bench.sink.get(3), run(odd));
}

TEST_F(ReplayTest, ARowOfMinusOneAndARowThatIsNotGivenLetTheRouterDecide) {
  SequenceRequest asked = request(1, 40, 12, 4);
  const Outcome free = run(asked);
  RouteSpan none = free.routes;
  std::fill(none.ids.begin(), none.ids.end(), std::byte(0xff));
  asked.routed_experts = given(none);
  expect_same_bits(run(asked), free);

  RouteSpan few = free.routes;
  few.ids.resize(few.row_bytes() * 7);
  asked.routed_experts = given(few);
  expect_same_bits(run(asked), free);

  // One odd row is enough to change what follows it, and every other row is the router's.
  RouteSpan odd = altered(free.routes, axis.experts);
  const auto row = ptrdiff_t(odd.row_bytes());
  none.ids.assign(none.ids.size(), std::byte(0xff));
  std::copy_n(odd.ids.begin() + 39 * row, row, none.ids.begin() + 39 * row);
  asked.routed_experts = given(none);
  const Outcome outcome = run(asked);
  EXPECT_NE(outcome.tokens[0].logprob, free.tokens[0].logprob);
  EXPECT_TRUE(std::equal(outcome.routes.ids.begin(), outcome.routes.ids.begin() + 39 * row,
                         free.routes.ids.begin()));
}

TEST_F(ReplayTest, GivenRoutesNeitherReadNorFillTheCache) {
  Bench bench(loaded, replay_settings());
  const SequenceRequest free = request(1, 50, 4, 5);
  const Outcome cold = run(free);
  SequenceRequest odd = odd_request(2, 50, 4, 5);
  const Outcome odd_cold = run(odd);
  bench.run(odd);
  EXPECT_EQ(bench.core->metrics().kv_blocks_idle, 0);
  EXPECT_EQ(bench.core->metrics().cache_bypassed, 1);
  EXPECT_EQ(bench.run(free).finish->cached_tokens, 0);
  expect_same_bits(bench.sink.get(1), cold);
  EXPECT_EQ(bench.sink.get(1).routes, cold.routes);
  odd.id = 3;
  EXPECT_EQ(bench.run(odd).finish->cached_tokens, 0);
  expect_same_bits(bench.sink.get(3), odd_cold);
  EXPECT_EQ(bench.sink.get(3).routes, odd_cold.routes);
  SequenceRequest again = free;
  again.id = 4;
  EXPECT_EQ(bench.run(again).finish->cached_tokens, 48);
  expect_same_bits(bench.sink.get(4), cold);
  EXPECT_EQ(bench.sink.get(4).routes, cold.routes);
}

TEST_F(ReplayTest, RoutesThatCannotBeAreRefusedByName) {
  SequenceRequest asked = request(1, 10, 4, 6);
  const Outcome free = run(asked);
  const auto refusal = [&](const RouteSpan& routes) {
    asked.routed_experts = given(routes);
    const Outcome outcome = run(asked);
    EXPECT_EQ(outcome.finish->reason, FinishReason::kError);
    EXPECT_EQ(outcome.finish->error.code(), absl::StatusCode::kInvalidArgument);
    return message_of(outcome.finish->error);
  };
  const size_t bad = free.routes.row_bytes() * 3;
  RouteSpan routes = free.routes;
  routes.ids[bad] = routes.ids[bad + 1];
  EXPECT_THAT(refusal(routes), AllOf(HasSubstr("token 3, layer 0"), HasSubstr("twice")));
  routes.ids[bad] = std::byte(axis.experts);
  EXPECT_THAT(refusal(routes), AllOf(HasSubstr("token 3, layer 0"), HasSubstr("experts go from")));
  routes.ids[bad] = std::byte(0xff);
  EXPECT_THAT(refusal(routes), AllOf(HasSubstr("token 3, layer 0"), HasSubstr("-1")));
  routes = free.routes;
  routes.ids.resize(routes.row_bytes() * 15);
  EXPECT_THAT(refusal(routes), HasSubstr("15 rows; this request takes 0 to 14"));

  SequenceRequest scored = score_request(1, asked, free);
  scored.routed_experts = given(free.routes);
  EXPECT_EQ(run(scored).finish->reason, FinishReason::kStop);
  routes.ids.resize(routes.row_bytes() * 12);
  scored.routed_experts = given(routes);
  EXPECT_THAT(message_of(run(scored).finish->error),
              HasSubstr("12 rows; this request takes 13 to 14"));
}

TEST(Replay, ADenseModelTakesNoRoutes) {
  const Loaded dense = load_checkpoint("llama");
  SequenceRequest asked = make_request(1, {1, 2, 3}, 4);
  asked.routed_experts = std::make_shared<const HostTensor>(DType::kInt8, Shape{3, 2, 2});
  EXPECT_THAT(message_of(Bench(dense).run(asked).finish->error),
              HasSubstr("routed_experts were given, but the model has no experts"));
}

}  // namespace
}  // namespace rlgen::engine
