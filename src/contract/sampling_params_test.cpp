#include "contract/sampling_params.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

namespace rlgen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct BadCase {
  const char* field;
  std::function<void(SamplingParams&)> spoil;
};

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

class BadParams : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadParams, IsRefusedByName) {
  SamplingParams params;
  GetParam().spoil(params);
  const Status status = validate(params);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().field));
}

INSTANTIATE_TEST_SUITE_P(
    FB192, BadParams,
    ::testing::Values(
        BadCase{"temperature", [](auto& p) { p.temperature = -0.1f; }},
        BadCase{"temperature", [](auto& p) { p.temperature = kNan; }},
        BadCase{"temperature", [](auto& p) { p.temperature = kInf; }},
        BadCase{"temperature is 1e-31; it must be 0 (greedy) or a finite number from 1e-30 on",
                [](auto& p) { p.temperature = 1e-31f; }},
        BadCase{"output_prefix_len is -1", [](auto& p) { p.output_prefix_len = -1; }},
        BadCase{"n is 16385", [](auto& p) { p.n = 16385; }},
        BadCase{"n is 2147483647", [](auto& p) { p.n = 2147483647; }},
        BadCase{"top_k", [](auto& p) { p.top_k = -2; }},
        BadCase{"top_p", [](auto& p) { p.top_p = 0.0f; }},
        BadCase{"top_p", [](auto& p) { p.top_p = 1.01f; }},
        BadCase{"top_p", [](auto& p) { p.top_p = kNan; }},
        BadCase{"min_p", [](auto& p) { p.min_p = -0.01f; }},
        BadCase{"min_p", [](auto& p) { p.min_p = kNan; }},
        BadCase{"repetition_penalty", [](auto& p) { p.repetition_penalty = 0.0f; }},
        BadCase{"repetition_penalty", [](auto& p) { p.repetition_penalty = kInf; }},
        BadCase{"presence_penalty", [](auto& p) { p.presence_penalty = 2.5f; }},
        BadCase{"frequency_penalty", [](auto& p) { p.frequency_penalty = kNan; }},
        BadCase{"logit_bias",
                [](auto& p) {
                  p.logit_bias = {{3, kNan}};
                }},
        BadCase{"logit_bias",
                [](auto& p) {
                  p.logit_bias = {{3, 1.0f}, {3, 2.0f}};
                }},
        BadCase{"allowed_token_ids", [](auto& p) { p.allowed_token_ids.emplace(); }},
        BadCase{"bad_words", [](auto& p) { p.bad_words = {""}; }},
        BadCase{"bad_words_ids", [](auto& p) { p.bad_words_ids = {{}}; }},
        BadCase{"max_tokens", [](auto& p) { p.max_tokens = 0; }},
        BadCase{"max_tokens", [](auto& p) { p.max_tokens = -4; }},
        BadCase{"min_tokens", [](auto& p) { p.min_tokens = -1; }},
        BadCase{
            "min_tokens",
            [](auto& p) {
              p.max_tokens = 2;
              p.min_tokens = 3;
            }},
        BadCase{"stop", [](auto& p) { p.stop = {""}; }},
        BadCase{"seed", [](auto& p) { p.seed = -1; }}, BadCase{"n", [](auto& p) { p.n = 0; }},
        BadCase{"logprobs", [](auto& p) { p.logprobs = -1; }},
        BadCase{"prompt_logprobs", [](auto& p) { p.prompt_logprobs = -1; }}));

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(validate(SamplingParams{}).ok()); }

TEST(SamplingParams, FB029_TopKZeroAndMinusOneAreOff) {
  for (const int32_t off : {0, -1}) {
    SamplingParams params{.top_k = off};
    EXPECT_TRUE(validate(params).ok());
    EXPECT_FALSE(params.top_k_on());
  }
}

TEST(SamplingParams, FB027_BansThatEmptyTheAllowListAreRefused) {
  SamplingParams params;
  params.allowed_token_ids = std::vector<int32_t>{5};
  params.bad_words_ids = {{5}};
  EXPECT_EQ(validate(params).code(), absl::StatusCode::kInvalidArgument);
  params.bad_words_ids = {{4, 5}};
  EXPECT_TRUE(validate(params).ok());
}

TEST(SamplingParams, TokenIdsOutsideTheVocabularyAreNamed) {
  SamplingParams params;
  params.stop_token_ids = {1, 10};
  const Status status = validate_token_ids(params, 10);
  EXPECT_THAT(message_of(status),
              AllOf(HasSubstr("stop_token_ids"), HasSubstr("10"), HasSubstr("0 to 9")));
  EXPECT_TRUE(validate_token_ids(params, 11).ok());
  params.logit_bias = {{-1, 0.5f}};
  EXPECT_THAT(message_of(validate_token_ids(params, 11)), HasSubstr("logit_bias"));
}

TEST(LogprobsMode, NamesRoundTripAndVllmNamesAreTaken) {
  for (const auto mode : {LogprobsMode::kRaw, LogprobsMode::kTempered, LogprobsMode::kProcessed}) {
    EXPECT_EQ(*parse_logprobs_mode(logprobs_mode_name(mode)), mode);
  }
  EXPECT_EQ(*parse_logprobs_mode("raw_logprobs"), LogprobsMode::kRaw);
  EXPECT_EQ(*parse_logprobs_mode("processed_logprobs"), LogprobsMode::kProcessed);
  EXPECT_THAT(message_of(parse_logprobs_mode("cooked").status()), HasSubstr("cooked"));
}

}  // namespace
}  // namespace rlgen
