#include "generation/request_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace rlgen::generation {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenRecord token(int32_t id, float logprob) { return {.token = id, .logprob = logprob}; }

class Ledger : public testing::Test {
 protected:
  void open(SamplingParams sampling = {}, std::vector<int32_t> score = {}) {
    OpenSequence sequence{.id = "p", .sample = 1, .prompt_token_ids = {7, 8, 9}};
    sequence.sampling = std::move(sampling);
    sequence.numerics = "n";
    sequence.score_only = !score.empty();
    sequence.score_token_ids = std::move(score);
    sequence.routes = routes_;
    ASSERT_TRUE(ledger_.open(1, std::move(sequence)).ok());
  }
  RequestLedger::Applied apply(SequenceEvent event) {
    event.id = 1;
    auto applied = ledger_.apply(std::move(event));
    EXPECT_TRUE(applied.ok()) << applied.status();
    return *std::move(applied);
  }
  // The event must reject the sequence; its message.
  std::string rejection(SequenceEvent event) {
    const auto applied = apply(std::move(event));
    if (!applied.rollout) return "not rejected";
    EXPECT_EQ(applied.rollout->finish.reason, FinishReason::kError);
    EXPECT_EQ(applied.rollout->finish.error.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(applied.rollout->tokens.empty());
    EXPECT_EQ(ledger_.size(), 0u);
    return message_of(applied.rollout->finish.error);
  }
  static std::optional<Finish> stop() { return Finish{.reason = FinishReason::kStop}; }

  RouteFacts routes_;  // that shards record
  RequestLedger ledger_;
};

TEST_F(Ledger, AssemblesARollout) {
  open();
  const auto first = apply({.tokens = {token(5, -0.5f)}});
  EXPECT_EQ(first.sample, 1);
  EXPECT_EQ(first.tokens.size(), 1u);
  EXPECT_FALSE(first.rollout.has_value());
  const auto last = apply({.tokens = {token(6, -0.25f), token(2, 0.0f)}, .finish = stop()});
  ASSERT_TRUE(last.rollout.has_value());
  EXPECT_FALSE(last.reject);
  EXPECT_EQ(last.rollout->id, "p");
  EXPECT_EQ(last.rollout->sample, 1);
  EXPECT_EQ(last.rollout->prompt_token_ids, (std::vector<int32_t>{7, 8, 9}));
  ASSERT_EQ(last.rollout->tokens.size(), 3u);
  EXPECT_EQ(last.rollout->tokens[2].token, 2);
  EXPECT_EQ(last.rollout->numerics, "n");
  EXPECT_EQ(ledger_.size(), 0u);
}

TEST_F(Ledger, FB008_AMissingValueRejectsAndNamesThePosition) {
  open();
  apply({.tokens = {token(5, -0.5f)}});
  const auto applied = apply({.tokens = {token(6, -1.0f), token(7, kNan)}});
  EXPECT_TRUE(applied.reject);
  ASSERT_TRUE(applied.rollout.has_value());
  EXPECT_THAT(message_of(applied.rollout->finish.error), HasSubstr("token 2 is nan"));
  EXPECT_EQ(ledger_.apply({.id = 1}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Ledger, FB009_NoInfiniteAndNoPositiveValue) {
  open();
  EXPECT_THAT(rejection({.tokens = {token(5, -std::numeric_limits<float>::infinity())}}),
              HasSubstr("token 0 is -inf"));
  open();
  EXPECT_THAT(rejection({.tokens = {token(5, 0.5f)}}), HasSubstr("token 0 is 0.5"));
}

TEST_F(Ledger, NoMoreTokensThanAskedFor) {
  open({.max_tokens = 1});
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f), token(5, -1.0f)}}),
              HasSubstr("2 tokens came, max_tokens is 1"));
}

TEST_F(Ledger, FB012_ScoredTokensAreThoseAskedFor) {
  open({}, {5, 6});
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f), token(4, -1.0f)}}),
              HasSubstr("token 1 to be scored is 6"));
  open({}, {5, 6});
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f)}, .finish = stop()}),
              HasSubstr("token 1 is missing"));
  open({}, {5});
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f), token(5, -1.0f)}}), HasSubstr("token 1 came"));
}

TEST_F(Ledger, FB013_PromptValuesForEveryPositionAfterTheFirst) {
  open({.prompt_logprobs = 0});
  EXPECT_THAT(
      rejection({.tokens = {token(5, -1.0f)}, .prompt = {token(8, -1.0f)}, .finish = stop()}),
      HasSubstr("prompt position 2 is missing"));
  open({.prompt_logprobs = 0});
  EXPECT_THAT(rejection({.prompt = {token(8, -1.0f), token(9, kNan)}}),
              HasSubstr("prompt position 2 is nan"));
  open({.prompt_logprobs = 0});
  apply({.prompt = {token(8, -1.0f), token(9, -2.0f)}});
  EXPECT_EQ(apply({.tokens = {token(5, -1.0f)}, .finish = stop()}).rollout->prompt.size(), 2u);
}

TEST_F(Ledger, FB007_AlternativesAreCheckedToo) {
  open({.logprobs = 1});
  TokenRecord record = token(5, -1.0f);
  record.top = {{5, kNan}};
  EXPECT_THAT(rejection({.tokens = {record}}), HasSubstr("alternative of token 0"));
  open({.logprobs = 1});
  record.top = {{5, -1.0f}, {6, -2.0f}};
  EXPECT_THAT(rejection({.tokens = {record}}), HasSubstr("2 alternatives, 1 were asked for"));
}

TEST_F(Ledger, AnErrorOfTheShardHasNoTokens) {
  open();
  apply({.tokens = {token(5, -1.0f)}});
  const auto applied = apply(
      {.finish = Finish{.reason = FinishReason::kError, .error = absl::InternalError("nan")}});
  EXPECT_EQ(applied.rollout->finish.reason, FinishReason::kError);
  EXPECT_TRUE(applied.rollout->tokens.empty());
}

TEST_F(Ledger, AnAbortKeepsItsTokens) {
  open({.prompt_logprobs = 0});
  const auto applied =
      apply({.tokens = {token(5, -1.0f)}, .finish = Finish{.reason = FinishReason::kAbort}});
  EXPECT_EQ(applied.rollout->tokens.size(), 1u);
}

TEST_F(Ledger, FB047_AFirstTokenThatStopsIsOrdinary) {
  for (int i = 0; i < 1000; ++i) {
    open();
    const auto applied = apply({.tokens = {token(2, -3.0f)}, .finish = stop()});
    ASSERT_EQ(applied.rollout->tokens.size(), 1u);
    open();
    ASSERT_TRUE(apply({.finish = stop()}).rollout->tokens.empty());
  }
}

class LedgerOfRoutes : public Ledger {
 protected:
  LedgerOfRoutes() { routes_ = {.layers = 1, .top_k = 2, .experts = 4}; }

  // `rows` rows, each of the experts 3 and 0.
  static RouteSpan rows(int32_t first, int32_t rows) {
    RouteSpan span{.first = first, .layers = 1, .top_k = 2, .dtype = DType::kInt8, .ids = {}};
    for (int32_t i = 0; i < rows; ++i)
      span.ids.insert(span.ids.end(), {std::byte{3}, std::byte{0}});
    return span;
  }
};

TEST_F(LedgerOfRoutes, RowsGoIntoTheRolloutAndToWhoeverLooksOn) {
  open();
  const auto first = apply({.tokens = {token(5, -1.0f)}, .routes = rows(0, 3)});
  EXPECT_EQ(first.routes, rows(0, 3));
  const auto last = apply({.tokens = {token(6, -1.0f)}, .routes = rows(3, 1), .finish = stop()});
  EXPECT_EQ(last.routes, rows(3, 1));
  EXPECT_EQ(last.rollout->routes, rows(0, 4));
}

TEST_F(LedgerOfRoutes, RowsBeginWhereTheRequestSays) {
  open({.routed_experts_prompt_start = 2});
  const auto last = apply({.tokens = {token(5, -1.0f)}, .routes = rows(2, 1), .finish = stop()});
  EXPECT_EQ(last.rollout->routes, rows(2, 1));
  open({.routed_experts_prompt_start = 2});
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f)}, .routes = rows(0, 3)}),
              HasSubstr("they go on with token 0"));
}

TEST_F(LedgerOfRoutes, FB236_WithoutAnyRowThereIsASpanOfNone) {
  open();
  EXPECT_EQ(apply({.finish = Finish{.reason = FinishReason::kAbort}}).rollout->routes, rows(0, 0));
}

TEST_F(LedgerOfRoutes, FB235_AGapSurplusAndWhatNobodyRecordsAreRejected) {
  open();
  apply({.tokens = {token(5, -1.0f)}, .routes = rows(0, 3)});
  const auto applied = apply({.tokens = {token(5, -1.0f)}, .routes = rows(4, 1)});
  EXPECT_TRUE(applied.reject);
  EXPECT_THAT(message_of(applied.rollout->finish.error), HasSubstr("of token 3 are missing"));
  EXPECT_FALSE(applied.rollout->routes.present());
  open();
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f)}, .routes = rows(0, 5)}),
              HasSubstr("5 tokens, there are 4"));
  open();
  RouteSpan wrong = rows(0, 1);
  wrong.ids[1] = std::byte{4};
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f)}, .routes = wrong}), HasSubstr("expert 4"));
  wrong = rows(0, 1);
  wrong.layers = 2;
  wrong.top_k = 1;
  open();
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f)}, .routes = wrong}), HasSubstr("2 layers"));
  routes_ = {};
  open();
  EXPECT_THAT(rejection({.tokens = {token(5, -1.0f)}, .routes = rows(0, 1)}),
              HasSubstr("which nobody records"));
}

TEST_F(Ledger, IdsAreUnique) {
  open();
  EXPECT_EQ(ledger_.open(1, {}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ledger_.ids(), std::vector<SequenceId>{1});
  EXPECT_TRUE(ledger_.fail(1, absl::UnavailableError("gone")).has_value());
  EXPECT_FALSE(ledger_.fail(1, absl::UnavailableError("gone")).has_value());
}

}  // namespace
}  // namespace rlgen::generation
