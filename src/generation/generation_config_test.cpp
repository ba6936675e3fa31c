#include "generation/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rlgen::generation {
namespace {

using testing::HasSubstr;

TEST(GenerationConfig, FB073_TakesTheSamplingDefaultsWhenAsked) {
  const auto sampling = apply_generation_config(
      "{\n \"temperature\": 0.7, \"top_p\": 0.8,\n \"repetition_penalty\": 1.1, \"top_k\": 0,\n"
      " \"max_new_tokens\": 9, \"do_sample\": true, \"eos_token_id\": [2], \"min_p\": null\n}",
      {});
  ASSERT_TRUE(sampling.ok()) << sampling.status();
  SamplingParams expected;
  expected.temperature = 0.7f;
  expected.top_p = 0.8f;
  expected.repetition_penalty = 1.1f;
  expected.top_k = 0;
  expected.max_tokens = 9;
  EXPECT_EQ(*sampling, expected);
}

TEST(GenerationConfig, NothingThereChangesNothing) {
  EXPECT_EQ(*apply_generation_config("{}", {.top_p = 0.5f}), (SamplingParams{.top_p = 0.5f}));
}

TEST(GenerationConfig, AWrongValueIsNamed) {
  EXPECT_THAT(message_of(apply_generation_config(R"({"top_p":7})", {}).status()),
              HasSubstr("generation_config.json: top_p is 7"));
  EXPECT_FALSE(apply_generation_config("[", {}).ok());
}

}  // namespace
}  // namespace rlgen::generation
