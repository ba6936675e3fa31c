#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "engine/sample/test_sampler.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

TEST(Sampler, FB025_BadWordsBanTheLastIdAfterTheOthers) {
  Ask ask{.logits = {0, 0, 0, 0, 0, 0, 9, 8}, .params = seeded()};
  ask.params.bad_words_ids = {{5, 6}, {7}};
  ask.prompt = {1};
  ask.output = {5};
  EXPECT_EQ(distinct(draw_many(ask, 500)).count(6), 0u);
  EXPECT_EQ(distinct(draw_many(ask, 500)).count(7), 0u);
  EXPECT_FALSE(score(ask, 6).ok());
  ask.output = {4};
  EXPECT_EQ(distinct(draw_many(ask, 500)).count(6), 1u);
  EXPECT_EQ(distinct(draw_many(ask, 500)).count(7), 0u);
}

TEST(Sampler, FB027_NothingLeftIsAnErrorAndNeverIdZero) {
  Ask ask{.logits = std::vector<float>(8, 0.0f), .params = seeded()};
  ask.params.allowed_token_ids = {5};
  ask.params.bad_words_ids = {{5}};
  for (const float temperature : {1.0f, 0.0f}) {
    ask.params.temperature = temperature;
    const auto record = sample(ask);
    EXPECT_EQ(record.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(message_of(record.status()).find("no token is left"), std::string::npos);
  }
  // A ban that empties the row only later.
  ask.params.bad_words_ids = {{4, 5}};
  EXPECT_EQ(sample(ask)->token, 5);
  ask.output = {4};
  EXPECT_EQ(sample(ask).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Sampler, FB029_TopKOff) {
  for (const int32_t top_k : {0, -1, 4, 5, 1000000}) {
    Ask ask{.params = seeded()};
    ask.params.top_k = top_k;
    EXPECT_NEAR(value_of(ask, 3), -3.4402, kFourDigits);
    EXPECT_TRUE(same_bits(value_of(ask, 3), value_of({.params = seeded()}, 3)));
  }
}

// Tokens made one after the other until one of the stop ids comes.
std::vector<int32_t> generate(Ask ask) {
  while (ask.output.size() < 20) {
    ask.position = static_cast<int64_t>(ask.prompt.size() + ask.output.size());
    const auto record = sample(ask);
    EXPECT_TRUE(record.ok()) << record.status();
    ask.output.push_back(record->token);
    for (const int32_t id : ask.stop_ids) {
      if (record->token == id) return ask.output;
    }
  }
  return ask.output;
}

TEST(Sampler, FB031_MinTokensReleasesTheStopRightAfterThatMany) {
  Ask ask{.logits = {0, 0, 40, 0}, .params = seeded(), .prompt = {1, 1, 1}, .stop_ids = {2}};
  for (const auto& [min_tokens, expected] : {std::pair{4, 5u}, {0, 1u}, {1, 2u}}) {
    ask.params.min_tokens = min_tokens;
    EXPECT_EQ(generate(ask).size(), expected);
  }
}

TEST(Sampler, FB033_MinTokensHoldsBackEveryStopId) {
  Ask ask{.logits = std::vector<float>(12, 0.0f), .params = seeded(), .stop_ids = {2, 9}};
  ask.logits[9] = 40.0f;
  ask.logits[2] = 30.0f;
  ask.params.min_tokens = 5;
  const auto ids = generate(ask);
  ASSERT_EQ(ids.size(), 6u);
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(ids[i] != 2 && ids[i] != 9);
  EXPECT_EQ(ids[5], 9);
}

TEST(Sampler, FB048_RowsBeyondTheVocabularyAreMaskedInEveryMode) {
  Ask padded{.logits = std::vector<float>(16, 0.5f), .params = seeded(), .vocab_size = 10};
  padded.logits[3] = 2.0f;
  padded.logits[12] = 50.0f;
  padded.logits[13] = kNan;
  padded.params.logprobs = 16;
  Ask whole = padded;
  whole.logits.resize(10);
  for (const float temperature : {0.0f, 0.7f, 1.0f}) {
    for (const LogprobsMode mode :
         {LogprobsMode::kRaw, LogprobsMode::kTempered, LogprobsMode::kProcessed}) {
      padded.params.temperature = whole.params.temperature = temperature;
      padded.params.logprobs_mode = whole.params.logprobs_mode = mode;
      const auto a = sample(padded);
      ASSERT_TRUE(a.ok()) << a.status();
      expect_equal(*a, *sample(whole));
      EXPECT_EQ(a->top.size(), 10u);
    }
  }
  EXPECT_EQ(score(padded, 12).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Sampler, FB061_OtherRequestsDoNotMoveASeededOne) {
  Ask a{.logits = std::vector<float>(100, 0.0f), .params = seeded(42)};
  Ask b{.logits = std::vector<float>(3000, 1.0f), .params = seeded(7)};
  b.params.top_k = 5;
  b.params.repetition_penalty = 1.5f;
  b.output = {1, 2, 3};
  const auto& table = *kernel_table(available_isas().back());
  SampleScratch alone;
  SampleScratch shared;
  for (a.position = 0; a.position < 50; ++a.position) {
    ASSERT_TRUE(call(table, b, std::nullopt, &shared).ok());
    expect_equal(*call(table, a, std::nullopt, &alone), *call(table, a, std::nullopt, &shared));
  }
}

TEST(Sampler, FB063_TheSeedAloneDecides) {
  const auto ids = [](int64_t seed, int32_t sample_index) {
    Ask ask{.logits = std::vector<float>(1000, 0.0f), .params = seeded(seed)};
    ask.sample_index = sample_index;
    return draw_many(ask, 20);
  };
  const auto first = ids(42, 0);
  EXPECT_EQ(ids(42, 0), first);
  EXPECT_NE(ids(43, 0), first);
  EXPECT_EQ(ids(42, 0), first);
  EXPECT_NE(ids(42, 1), first);
}

TEST(Sampler, TheDrawIsKeyedByAbsolutePosition) {
  Ask ask{.logits = std::vector<float>(1000, 0.0f), .params = seeded()};
  ask.prompt = {1, 2, 3};
  ask.output = {4, 5};
  const auto split = sample(ask);
  ask.prompt = {1, 2, 3, 4, 5};
  ask.output = {};
  expect_equal(*split, *sample(ask));
}

TEST(Sampler, AMissingSeedIsRefusedUnlessGreedy) {
  Ask ask;
  EXPECT_EQ(sample(ask).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(score(ask, 1).ok());
  ask.params.temperature = 0.0f;
  EXPECT_TRUE(sample(ask).ok());
}

TEST(Sampler, ScoringNamesWhatItCannotScore) {
  Ask ask{.params = seeded()};
  for (const int32_t token : {-1, 4}) {
    EXPECT_EQ(score(ask, token).status().code(), absl::StatusCode::kInvalidArgument);
  }
  ask.params.top_k = 2;
  const auto record = score(ask, 2);
  EXPECT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(record.status()).find("token 2 has no log-probability"), std::string::npos);
}

// Weights 4 : 3 : 2 : 1.
Ask four_to_one() {
  Ask ask{.params = seeded()};
  for (int i = 0; i < 4; ++i) ask.logits[i] = std::log(static_cast<float>(4 - i));
  return ask;
}

TEST(Sampler, TopPSeesWhatTopKLeft) {
  Ask ask = four_to_one();
  ask.params.top_p = 0.5f;
  EXPECT_EQ(distinct(draw_many(ask, 300)), (std::set<int32_t>{0, 1}));
  ask.params.top_k = 2;  // 4/7 and 3/7 are left, and 4/7 reaches one half alone
  EXPECT_EQ(distinct(draw_many(ask, 300)), (std::set<int32_t>{0}));
  EXPECT_EQ(value_of(ask, 0), 0.0f);
}

TEST(Sampler, MinPIsRelativeToTheLargest) {
  Ask ask = four_to_one();
  ask.params.min_p = 0.45f;
  EXPECT_EQ(distinct(draw_many(ask, 300)), (std::set<int32_t>{0, 1, 2}));
  EXPECT_NEAR(value_of(ask, 2), std::log(2.0 / 9.0), 1e-6);
  ask.params.top_p = 0.5f;  // of 4, 3, 2: 4/9 does not reach one half
  EXPECT_EQ(distinct(draw_many(ask, 300)), (std::set<int32_t>{0, 1}));
  ask.params.min_p = 1.0f;
  EXPECT_EQ(value_of(ask, 0), 0.0f);
}

TEST(Sampler, EditsComeBeforeTheTemperatureInTheDocumentedOrder) {
  Ask ask{.logits = {-1.0f, 0.0f, 0.0f, 0.0f}, .params = seeded(), .output = {0}};
  ask.params.logit_bias = {{0, 4.0f}};
  ask.params.repetition_penalty = 2.0f;
  ask.params.temperature = 0.5f;
  // (-1 + 4) / 2 / 0.5 = 3; with the penalty before the bias it were (-1 * 2 + 4) / 0.5 = 4.
  EXPECT_NEAR(value_of(ask, 0), 3.0 - std::log(std::exp(3.0) + 3.0), 1e-6);
  ask.params.logprobs_mode = LogprobsMode::kTempered;
  EXPECT_NEAR(value_of(ask, 0), -2.0 - std::log(std::exp(-2.0) + 3.0), 1e-6);
  ask.params.logprobs_mode = LogprobsMode::kRaw;
  EXPECT_NEAR(value_of(ask, 0), -1.0 - std::log(std::exp(-1.0) + 3.0), 1e-6);
}

TEST(Sampler, AlternativesComeBestFirstTiesByLowerId) {
  Ask ask{.logits = {1.0f, 3.0f, 2.0f, 3.0f, -kInfinity, 2.0f}, .params = seeded()};
  const auto ids_of = [&](int32_t count) {
    ask.params.logprobs = count;
    std::vector<int32_t> ids;
    const TokenRecord record = *sample(ask);
    for (const TokenLogprob& entry : record.top) {
      ids.push_back(entry.token);
      EXPECT_TRUE(same_bits(entry.logprob, value_of(ask, entry.token)));
    }
    return ids;
  };
  EXPECT_EQ(ids_of(0), (std::vector<int32_t>{}));
  EXPECT_EQ(ids_of(1), (std::vector<int32_t>{1}));
  EXPECT_EQ(ids_of(3), (std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(ids_of(100), (std::vector<int32_t>{1, 3, 2, 5, 0}));
  ask.params.bad_words_ids = {{3}};
  EXPECT_EQ(ids_of(3), (std::vector<int32_t>{1, 2, 5}));
  ask.params.top_k = 2;
  EXPECT_EQ(ids_of(5), (std::vector<int32_t>{1, 2}));
  ask.params.logprobs_mode = LogprobsMode::kRaw;
  EXPECT_EQ(ids_of(5), (std::vector<int32_t>{1, 2}));
}

// Chi-square against processed probabilities; 16.3 is the 0.999 quantile for 3 degrees of freedom.
TEST(Sampler, DrawsHaveTheProbabilitiesThatAreReported) {
  constexpr int kDraws = 20000;
  for (const float temperature : {0.7f, 1.0f, 2.0f}) {
    Ask ask{.params = seeded(11)};
    ask.params.temperature = temperature;
    std::vector<int> count(4);
    for (const int32_t id : draw_many(ask, kDraws)) ++count[id];
    double chi_square = 0.0;
    for (int32_t id = 0; id < 4; ++id) {
      const double expected = kDraws * std::exp(double{value_of(ask, id)});
      chi_square += (count[id] - expected) * (count[id] - expected) / expected;
    }
    EXPECT_LT(chi_square, 16.3) << temperature;
  }
}

}  // namespace
}  // namespace rlgen::engine
