#include "engine/sample/sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kernels/philox.h"

namespace rlgen::engine {
namespace {

using kernels::available_isas;
using kernels::kernel_table;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// What the values of the field reports are given to.
constexpr double kFourDigits = 5.1e-5;

// One call of the sampler, with everything that decides its answer.
struct Ask {
  std::vector<float> logits = {2.0f, 1.0f, 0.0f, -1.0f};
  SamplingParams params = {};
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> output = {};
  std::vector<int32_t> stop_ids = {};
  int32_t vocab_size = 0;  // 0: all of the row
  int32_t sample_index = 0;
  int64_t position = 5;
};

StatusOr<TokenRecord> call(const kernels::KernelTable& table, const Ask& ask,
                           std::optional<int32_t> scored, SampleScratch* scratch) {
  auto logits = ask.logits;
  const SampleRow row{
      .logits = logits,
      .vocab_size = ask.vocab_size > 0 ? ask.vocab_size : static_cast<int32_t>(logits.size()),
      .params = &ask.params,
      .prompt = ask.prompt,
      .output = ask.output,
      .stop_ids = ask.stop_ids,
      .sample_index = ask.sample_index,
      .position = ask.position};
  TokenRecord record;
  RLGEN_RETURN_IF_ERROR(scored ? score_token(table, row, *scored, scratch, &record)
                               : sample_token(table, row, scratch, &record));
  return record;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

void expect_equal(const TokenRecord& a, const TokenRecord& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_TRUE(same_bits(a.logprob, b.logprob)) << a.logprob << " and " << b.logprob;
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token, b.top[i].token);
    EXPECT_TRUE(same_bits(a.top[i].logprob, b.top[i].logprob));
  }
}

// The answer on every instruction set of this machine, which must be one.
StatusOr<TokenRecord> on_all(const Ask& ask, std::optional<int32_t> scored) {
  SampleScratch scratch;
  const auto expected = call(*kernel_table(available_isas().front()), ask, scored, &scratch);
  for (const kernels::Isa isa : available_isas()) {
    const auto record = call(*kernel_table(isa), ask, scored, &scratch);
    EXPECT_EQ(record.status(), expected.status());
    if (record.ok() && expected.ok()) expect_equal(*record, *expected);
  }
  return expected;
}

StatusOr<TokenRecord> sample(const Ask& ask) { return on_all(ask, std::nullopt); }
StatusOr<TokenRecord> score(const Ask& ask, int32_t token) { return on_all(ask, token); }

float value_of(const Ask& ask, int32_t token) {
  const auto record = score(ask, token);
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? record->logprob : kNan;
}

// Ids drawn at `draws` positions.
std::vector<int32_t> draw_many(Ask ask, int draws) {
  std::vector<int32_t> ids;
  SampleScratch scratch;
  const auto& table = *kernel_table(available_isas().back());
  for (int i = 0; i < draws; ++i) {
    ask.position = i;
    const auto record = call(table, ask, std::nullopt, &scratch);
    EXPECT_TRUE(record.ok()) << record.status();
    ids.push_back(record.ok() ? record->token : -1);
  }
  return ids;
}

std::set<int32_t> distinct(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

SamplingParams seeded(int64_t seed = 1) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

TEST(Sampler, FB001_TheTemperatureIsInTheValueOrTheModeSaysRaw) {
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

TEST(Sampler, FB003_EveryModeAtEveryTemperature) {
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

TEST(Sampler, FB004_KeptSetAndFullVocabularyHaveTheirOwnNames) {
  Ask ask{.params = seeded()};
  ask.params.top_p = 0.8f;
  EXPECT_NEAR(value_of(ask, 0), -0.3133, kFourDigits);
  for (const LogprobsMode mode : {LogprobsMode::kRaw, LogprobsMode::kTempered}) {
    ask.params.logprobs_mode = mode;
    EXPECT_NEAR(value_of(ask, 0), -0.4402, kFourDigits);
  }
  EXPECT_EQ(distinct(draw_many(ask, 200)), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, FB005_TheModesDifferByTheKeptMass) {
  Ask processed{.params = seeded()};
  processed.params.top_p = 0.8f;
  Ask raw = processed;
  raw.params.logprobs_mode = LogprobsMode::kRaw;
  for (const int32_t token : {0, 1}) {
    EXPECT_NEAR(value_of(processed, token) - value_of(raw, token), 0.1269, kFourDigits);
  }
}

TEST(Sampler, FB007_TheChosenTokenKeepsItsOwnValue) {
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

TEST(Sampler, FB009_NearCertainRowsStayFinite) {
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

TEST(Sampler, ExtremeTemperatures) {
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

TEST(Sampler, FB012_GreedyValuesAreReal) {
  Ask ask;
  ask.params.temperature = 0.0f;
  for (ask.position = 0; ask.position < 8; ++ask.position) {
    const auto record = sample(ask);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->token, 0);
    EXPECT_NEAR(record->logprob, -0.4402, kFourDigits);
  }
}

TEST(Sampler, GreedyTakesNoNoticeOfTopKTopPMinP) {
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

TEST(Sampler, GreedyTakesTheLowestIdOfATieAfterTheEdits) {
  Ask ask{.logits = {1.0f, 3.0f, 3.0f, 3.0f}};
  ask.params.temperature = 0.0f;
  EXPECT_EQ(sample(ask)->token, 1);
  ask.params.bad_words_ids = {{1}};
  EXPECT_EQ(sample(ask)->token, 2);
  ask.params.logit_bias = {{0, 2.5f}};
  EXPECT_EQ(sample(ask)->token, 0);
}

TEST(Sampler, FB015_NonFiniteLogitsFail) {
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

TEST(Sampler, ParametersThatOverflowALogitAreToBlameAndNotTheWeights) {
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
