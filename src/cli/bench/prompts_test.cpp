#include "cli/bench/prompts.h"

#include <gtest/gtest.h>

#include <set>

namespace rlgen::cli {
namespace {

TEST(BenchPrompts, RepeatedOnesRepeatAndFreshOnesDoNot) {
  PromptMaker maker(1000);
  std::set<std::vector<int32_t>> met;
  for (const SequenceRequest& request : maker.fresh(3, 16, 1)) {
    EXPECT_TRUE(met.insert(request.prompt_token_ids).second);
  }
  const auto first = maker.repeated(5, 16, 4);
  const auto second = maker.repeated(2, 16, 4);
  for (size_t i = 0; i < second.size(); ++i) {
    EXPECT_EQ(second[i].prompt_token_ids, first[i].prompt_token_ids);
    EXPECT_NE(second[i].id, first[i].id);
  }
  for (const SequenceRequest& request : first) met.insert(request.prompt_token_ids);
  EXPECT_EQ(met.size(), 5u);
  for (const SequenceRequest& request : maker.fresh(3, 16, 1)) {
    EXPECT_TRUE(met.insert(request.prompt_token_ids).second);
  }
}

TEST(BenchPrompts, IdsAreOfTheVocabularyAndNothingStopsEarly) {
  PromptMaker maker(7);
  const SequenceRequest request = maker.request(3, 500, 9);
  EXPECT_EQ(request.prompt_token_ids.size(), 500u);
  std::set<int32_t> ids(request.prompt_token_ids.begin(), request.prompt_token_ids.end());
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_EQ(*ids.begin(), 0);
  EXPECT_EQ(*ids.rbegin(), 6);
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_EQ(request.sampling.max_tokens, 9);
}

}  // namespace
}  // namespace rlgen::cli
