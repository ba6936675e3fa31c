#include "backends/local/text_side.h"

#include <gtest/gtest.h>

namespace rlgen::backends {
namespace {

TEST(TextSide, TokenizerGivesVocabularyAndStopStrings) {
  const auto side = open_text_side("tests/fixtures/checkpoints/table_padded_head");
  ASSERT_TRUE(side.ok()) << side.status();
  EXPECT_EQ(side->vocab_size, 10);
  SequenceRequest request;
  request.prompt_token_ids = {0};
  EXPECT_EQ(*side->watchers(request), nullptr);
  request.sampling.stop = {"bc"};
  auto watcher = *side->watchers(request);
  EXPECT_EQ(watcher->on_token(1, true), std::nullopt);
  EXPECT_EQ(watcher->on_token(2, true), "bc");
}

TEST(TextSide, AFolderWithoutATokenizerHasNone) {
  const auto side = open_text_side("tests/fixtures/checkpoints/llama");
  ASSERT_TRUE(side.ok()) << side.status();
  EXPECT_FALSE(side->watchers);
  EXPECT_EQ(side->vocab_size, 0);
}

}  // namespace
}  // namespace rlgen::backends
