#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/sample/test_sampler.h"
#include "kernels/philox.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

TEST(SamplerValues, FB001_TheTemperatureIsInTheValueOrTheModeSaysRaw) {
  Ask ask{.params = seeded()};
  ask.params.temperature = 0.5f;
  for (const LogprobsMode mode : {LogprobsMode::kProcessed, LogprobsMode::kTempered}) {
    ask.params.logprobs_mode = mode;
    EXPECT_NEAR(value_of(ask, 0), -0.1451, kFourDigits);
  }
  ask.params.logprobs_mode = LogprobsMode::kRaw;
  EXPECT_NEAR(value_of(ask, 0), -0.4402, kFourDigits);
}

// Log-softmax in double of logits / temperature.
double reference(const std::vector<float>& logits, double temperature, int32_t token) {
  double sum = 0.0;
  for (const float x : logits) sum += std::exp((double{x} - double{logits[0]}) / temperature);
  return (double{logits[token]} - double{logits[0]}) / temperature - std::log(sum);
}

TEST(SamplerValues, FB003_EveryModeAtEveryTemperature) {
  Ask ask{.params = seeded()};
  for (const float temperature : {0.3f, 0.5f, 1.0f, 1.7f}) {
    ask.params.temperature = temperature;
    for (int32_t token = 0; token < 4; ++token) {
      ask.params.logprobs_mode = LogprobsMode::kProcessed;
      EXPECT_NEAR(value_of(ask, token), reference(ask.logits, temperature, token), 2e-6);
      ask.params.logprobs_mode = LogprobsMode::kTempered;
      EXPECT_NEAR(value_of(ask, token), reference(ask.logits, temperature, token), 2e-6);
      ask.params.logprobs_mode = LogprobsMode::kRaw;
      EXPECT_NEAR(value_of(ask, token), reference(ask.logits, 1.0, token), 2e-6);
    }
  }
  ask.params.logprobs_mode = LogprobsMode::kProcessed;
  ask.params.temperature = 1.0f;
  EXPECT_NEAR(value_of(ask, 1), -1.4402, kFourDigits);
  ask.params.temperature = 0.5f;
  EXPECT_NEAR(value_of(ask, 1), -2.1451, kFourDigits);
}

TEST(SamplerValues, FB004_KeptSetAndFullVocabularyHaveTheirOwnNames) {
  Ask ask{.params = seeded()};
  ask.params.top_p = 0.8f;
  EXPECT_NEAR(value_of(ask, 0), -0.3133, kFourDigits);
  for (const LogprobsMode mode : {LogprobsMode::kRaw, LogprobsMode::kTempered}) {
    ask.params.logprobs_mode = mode;
    EXPECT_NEAR(value_of(ask, 0), -0.4402, kFourDigits);
  }
  EXPECT_EQ(distinct(draw_many(ask, 200)), (std::set<int32_t>{0, 1}));
}

TEST(SamplerValues, FB005_TheModesDifferByTheKeptMass) {
  Ask processed{.params = seeded()};
  processed.params.top_p = 0.8f;
  Ask raw = processed;
  raw.params.logprobs_mode = LogprobsMode::kRaw;
  for (const int32_t token : {0, 1}) {
    EXPECT_NEAR(value_of(processed, token) - value_of(raw, token), 0.1269, kFourDigits);
  }
}

TEST(SamplerValues, FB007_TheChosenTokenKeepsItsOwnValue) {
  Ask ask{.params = seeded()};
  ask.params.allowed_token_ids = {3};
  ask.params.logprobs = 2;
  ask.params.logprobs_mode = LogprobsMode::kRaw;
  const auto record = sample(ask);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->token, 3);
  EXPECT_NEAR(record->logprob, -3.4402, kFourDigits);
  ASSERT_EQ(record->top.size(), 1u);
  EXPECT_EQ(record->top[0].token, 3);
}

TEST(SamplerValues, FB009_NearCertainRowsStayFinite) {
  Ask ask{.logits = {100.0f, -100.0f, -100.0f}, .params = seeded()};
  auto record = sample(ask);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->token, 0);
  EXPECT_LE(record->logprob, 0.0f);
  EXPECT_GE(record->logprob, -1e-6f);
  EXPECT_EQ(value_of(ask, 1), -200.0f);

  ask.logits = {88.0f, -88.0f};
  ask.params.temperature = 0.1f;
  record = sample(ask);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->token, 0);
  EXPECT_EQ(record->logprob, 0.0f);
  EXPECT_NEAR(value_of(ask, 1), -1760.0, 1e-3);
}

TEST(SamplerValues, ExtremeTemperatures) {
  Ask ask{.params = seeded()};
  for (const float temperature : {0x1p-149f, 1e-38f, 1e-30f, 1e-10f}) {
    ask.params.temperature = temperature;
    const auto record = sample(ask);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->token, 0);
    EXPECT_EQ(record->logprob, 0.0f);
  }
  ask.params.temperature = 3e38f;
  for (int32_t token = 0; token < 4; ++token) {
    EXPECT_NEAR(value_of(ask, token), -std::log(4.0), 1e-6);
  }
}

TEST(SamplerValues, TheSmallestTemperatureHasFiniteValues) {
  Ask ask{.logits = {3.0f, -9.0e7f, 0.0f}, .params = seeded()};
  ask.params.temperature = kSmallestTemperature;
  ask.params.logprobs_mode = LogprobsMode::kTempered;
  ask.params.allowed_token_ids = {{1, 2}};
  ask.params.logprobs = 2;
  const auto record = sample(ask);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->token, 2);
  EXPECT_FLOAT_EQ(record->logprob, -3e30f);
  // Below it, which no request is, the request is to blame and not the model.
  ask.params.temperature = 1e-40f;
  ask.params.logprobs = 0;
  for (const Status& status : {sample(ask).status(), score(ask, 2).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(message_of(status).find("temperature is 1e-40"), std::string::npos) << status;
  }
}

TEST(SamplerValues, FB012_GreedyValuesAreReal) {
  Ask ask;
  ask.params.temperature = 0.0f;
  for (ask.position = 0; ask.position < 8; ++ask.position) {
    const auto record = sample(ask);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->token, 0);
    EXPECT_NEAR(record->logprob, -0.4402, kFourDigits);
  }
}

TEST(SamplerValues, GreedyTakesNoNoticeOfTopKTopPMinP) {
  Ask ask;
  ask.params.temperature = 0.0f;
  ask.params.top_k = 1;
  ask.params.top_p = 0.1f;
  ask.params.min_p = 1.0f;
  for (const LogprobsMode mode :
       {LogprobsMode::kRaw, LogprobsMode::kTempered, LogprobsMode::kProcessed}) {
    ask.params.logprobs_mode = mode;
    EXPECT_NEAR(sample(ask)->logprob, -0.4402, kFourDigits);
    EXPECT_NEAR(value_of(ask, 3), -3.4402, kFourDigits);
  }
}

TEST(SamplerValues, GreedyTakesTheLowestIdOfATieAfterTheEdits) {
  Ask ask{.logits = {1.0f, 3.0f, 3.0f, 3.0f}};
  ask.params.temperature = 0.0f;
  EXPECT_EQ(sample(ask)->token, 1);
  ask.params.bad_words_ids = {{1}};
  EXPECT_EQ(sample(ask)->token, 2);
  ask.params.logit_bias = {{0, 2.5f}};
  EXPECT_EQ(sample(ask)->token, 0);
}

TEST(SamplerValues, FB015_NonFiniteLogitsFail) {
  for (const float bad : {kNan, kInfinity}) {
    for (const int64_t seed : {1, 2}) {
      Ask ask{.params = seeded(seed)};
      ask.params.temperature = 0.7f;
      ask.logits[2] = bad;
      for (const auto& record : {sample(ask), score(ask, 0)}) {
        EXPECT_EQ(record.status().code(), absl::StatusCode::kDataLoss);
        EXPECT_NE(message_of(record.status()).find("non-finite logits"), std::string::npos);
      }
      ask.params.temperature = 0.0f;
      EXPECT_EQ(sample(ask).status().code(), absl::StatusCode::kDataLoss);
      // A ban does not hide it.
      ask.params.allowed_token_ids = {0};
      EXPECT_EQ(sample(ask).status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

TEST(SamplerValues, ParametersThatOverflowALogitAreToBlameAndNotTheWeights) {
  for (const auto spoil : {+[](SamplingParams& p) { p.repetition_penalty = 1e-45f; },
                           +[](SamplingParams& p) {
                             p.logit_bias = {{0, 3e38f}, {1, 3e38f}};
                           }}) {
    Ask ask{.logits = {3e38f, 3e38f, 0.0f}, .params = seeded(), .prompt = {0}};
    spoil(ask.params);
    const auto record = sample(ask);
    EXPECT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(message_of(record.status()).find("penalties"), std::string::npos);
  }
}

SamplingParams any_params(int32_t n) {
  SamplingParams params = seeded(*rc::gen::inRange<int64_t>(0, 1000));
  params.temperature = *rc::gen::element(0.0f, 0.3f, 1.0f, 1.7f);
  params.top_k = *rc::gen::element(-1, 0, 1, 3, 40, n);
  params.top_p = *rc::gen::element(1.0f, 0.95f, 0.3f);
  params.min_p = *rc::gen::element(0.0f, 0.05f, 0.8f);
  params.repetition_penalty = *rc::gen::element(1.0f, 1.3f);
  params.presence_penalty = *rc::gen::element(0.0f, 0.5f, -0.5f);
  params.frequency_penalty = *rc::gen::element(0.0f, 0.25f);
  if (*rc::gen::inRange(0, 3) == 0) params.logit_bias = {{0, 2.0f}, {n - 1, -1.0f}};
  if (*rc::gen::inRange(0, 3) == 0) params.allowed_token_ids = {{0, 1, n / 2, n - 1}};
  if (*rc::gen::inRange(0, 3) == 0) params.bad_words_ids = {{1}, {0, 2}};
  params.min_tokens = *rc::gen::inRange(0, 5);
  params.logprobs = *rc::gen::element(0, 1, 5);
  params.logprobs_mode =
      *rc::gen::element(LogprobsMode::kRaw, LogprobsMode::kTempered, LogprobsMode::kProcessed);
  return params;
}

RC_GTEST_PROP(SamplerProperty, ScoringADrawnTokenGivesItsBits, ()) {
  const auto n = *rc::gen::element(4, 16, 70, 1024, 3000);
  Ask ask{.logits = std::vector<float>(n), .params = any_params(n)};
  const auto seed = *rc::gen::inRange<uint64_t>(0, 1u << 30);
  for (int32_t i = 0; i < n; ++i) {
    ask.logits[i] = static_cast<float>(8.0 * kernels::uniform(seed, 1, i) - 4.0);
  }
  ask.prompt = {0, 2};
  ask.output = {3, 0, 0};
  ask.stop_ids = {2};
  ask.position = *rc::gen::inRange<int64_t>(0, 100000);
  const auto drawn = sample(ask);
  RC_ASSERT(drawn.ok());
  RC_ASSERT(std::isfinite(drawn->logprob));
  const auto scored = score(ask, drawn->token);
  RC_ASSERT(scored.ok());
  RC_ASSERT(scored->token == drawn->token);
  RC_ASSERT(same_bits(scored->logprob, drawn->logprob));
  RC_ASSERT(scored->top.size() == drawn->top.size());
  for (size_t i = 0; i < drawn->top.size(); ++i) {
    RC_ASSERT(scored->top[i].token == drawn->top[i].token);
    RC_ASSERT(same_bits(scored->top[i].logprob, drawn->top[i].logprob));
  }
}

}  // namespace
}  // namespace rlgen::engine
