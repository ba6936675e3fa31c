#include "contract/sampling_json.h"

#include <gmock/gmock.h>

#include <cfenv>
#include <nlohmann/json.hpp>

namespace rlgen {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

StatusOr<SamplingParams> parse(const std::string& text, std::string_view path = "") {
  SamplingParams params;
  RLGEN_RETURN_IF_ERROR(merge_sampling_json(json::parse(text), path, &params));
  return params;
}

std::string error_of(const std::string& text, std::string_view path = "") {
  return message_of(parse(text, path).status());
}

TEST(SamplingJson, EveryFieldRoundTrips) {
  SamplingParams params{.temperature = 0.7f, .top_k = 5, .top_p = 0.9f, .min_p = 0.01f};
  params.repetition_penalty = 1.1f;
  params.presence_penalty = -0.3f;
  params.frequency_penalty = 0.2f;
  params.logit_bias = {{3, -1.5f}, {7, 0.1f}};
  params.allowed_token_ids = std::vector<int32_t>{3, 7};
  params.bad_words = {"a"};
  params.bad_words_ids = {{1, 2}};
  params.max_tokens = 9;
  params.min_tokens = 2;
  params.stop_token_ids = {4};
  params.stop = {"\n", "x"};
  params.include_stop_str_in_output = true;
  params.ignore_eos = true;
  params.skip_special_tokens = false;
  params.output_prefix_len = 6;
  params.seed = 9223372036854775807;
  params.n = 3;
  params.logprobs_mode = LogprobsMode::kTempered;
  params.logprobs = 2;
  params.prompt_logprobs = 0;
  const std::string text = sampling_to_json(params).dump();
  const auto back = parse(text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, params);
  EXPECT_THAT(text, HasSubstr("\"temperature\":0.7,"));
}

TEST(SamplingJson, DefaultsRoundTrip) {
  const auto back = parse(sampling_to_json(SamplingParams{}).dump());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, SamplingParams{});
}

TEST(SamplingJson, FB029_NullTopKIsOff) { EXPECT_FALSE(parse(R"({"top_k":null})")->top_k_on()); }

TEST(SamplingJson, OneStopStringStandsForAList) {
  EXPECT_EQ(parse(R"({"stop":"END"})")->stop, std::vector<std::string>{"END"});
}

TEST(SamplingJson, FB197_UnknownKeysAreErrorsWithASuggestion) {
  EXPECT_THAT(error_of(R"({"temprature":1})", "line 3"),
              AllOf(HasSubstr("line 3.temprature"), HasSubstr("\"temperature\"")));
}

TEST(SamplingJson, WrongTypesAreNamed) {
  EXPECT_THAT(error_of(R"({"temperature":"hot"})"), HasSubstr("temperature is \"hot\""));
  EXPECT_THAT(error_of(R"({"max_tokens":1.5})"), HasSubstr("max_tokens is 1.5"));
  EXPECT_THAT(error_of(R"({"max_tokens":3000000000})"), HasSubstr("max_tokens"));
  EXPECT_THAT(error_of(R"({"seed":-9223372036854775809})"), HasSubstr("seed"));
  EXPECT_THAT(error_of(R"({"stop":[1]})"), HasSubstr("stop[0]"));
  EXPECT_THAT(error_of(R"({"logit_bias":{"x":1}})"), HasSubstr("logit_bias"));
  EXPECT_THAT(error_of(R"({"logit_bias":{"5":1e39}})"), HasSubstr("logit_bias.5"));
  EXPECT_THAT(error_of(R"({"logprobs_mode":"best"})"), HasSubstr("logprobs_mode"));
  EXPECT_THAT(error_of(R"({"ignore_eos":1})"), HasSubstr("ignore_eos"));
  EXPECT_THAT(error_of(R"({"temperature":1e-60})"), HasSubstr("temperature is 1e-60"));
  EXPECT_THAT(error_of("[]"), HasSubstr("object"));
}

// One range, whatever is wrong with the number: beyond it, beyond its type, or not whole.
TEST(SamplingJson, WholeNumbersAreRefusedWithTheRangeThatHolds) {
  const std::pair<std::string, std::string> fields[] = {
      {"n", "a whole number from 1 to 16384"},
      {"max_tokens", "a whole number from 1 to 2147483647"},
      {"min_tokens", "a whole number from 0 to 2147483647"},
      {"output_prefix_len", "a whole number from 0 to 2147483647"},
      {"logprobs", "a whole number from 0 to 2147483647"},
      {"prompt_logprobs", "a whole number from 0 to 2147483647"},
      {"seed", "a whole number from 0 to 9223372036854775807"},
      {"top_k", "-1 or 0 (off) or a whole number up to 2147483647"}};
  for (const auto& [field, rule] : fields) {
    for (const std::string value : {"-2", "9223372036854775808", "1.5", "1e+20", "\"1\"", "true"}) {
      EXPECT_EQ(error_of("{\"" + field + "\":" + value + "}"),
                field + " is " + value + "; it must be " + rule);
    }
  }
}

TEST(SamplingJson, TokenIdsInListsAreNotGivenTheRangeOfTheirType) {
  for (const std::string value : {"2147483648", "1.5", "\"1\""}) {
    EXPECT_EQ(error_of("{\"stop_token_ids\":[1," + value + "]}"),
              "stop_token_ids[1] is " + value + "; it must be a token id");
  }
}

TEST(SamplingJson, WholeNumbersMayBeWrittenAsReals) {
  EXPECT_EQ(parse(R"({"max_tokens":3.0})")->max_tokens, 3);
}

// The reader of the text is the caller's; what is made of its numbers decides bits.
TEST(SamplingJson, NumbersDoNotDependOnTheCallersRounding) {
  const json object = json::parse(R"({"temperature":0.6,"top_p":0.7,"min_p":0.1,
      "repetition_penalty":1.1,"presence_penalty":-0.3,"logit_bias":{"7":-0.1}})");
  const auto read = [&](int rounding) {
    std::fesetround(rounding);
    SamplingParams params;
    EXPECT_TRUE(merge_sampling_json(object, "", &params).ok());
    std::fesetround(FE_TONEAREST);
    return params;
  };
  const SamplingParams expected = read(FE_TONEAREST);
  EXPECT_EQ(expected.top_p, 0.7f);
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    EXPECT_EQ(read(rounding), expected) << rounding;
  }
}

TEST(SamplingJson, AFailedMergeChangesNothing) {
  SamplingParams params{.top_p = 0.5f};
  const SamplingParams before = params;
  EXPECT_FALSE(merge_sampling_json(json::parse(R"({"top_p":0.7,"top_k":-3})"), "", &params).ok());
  EXPECT_EQ(params, before);
}

}  // namespace
}  // namespace rlgen
