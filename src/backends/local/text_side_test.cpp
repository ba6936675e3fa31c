#include "backends/local/text_side.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

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

// Gathers one sequence.
class OneSequence final : public EventSink {
 public:
  void on_events(EventBatch events) override {
    for (SequenceEvent& event : events) {
      for (const TokenRecord& record : event.tokens) ids.push_back(record.token);
      if (event.finish) done.set_value(*event.finish);
    }
  }
  std::vector<int32_t> ids;
  std::promise<Finish> done;
};

// Row 12 of the head has the highest logit and no token.
TEST(TextSide, FB048_RowsBeyondTheTokenizerAreNeverDrawn) {
  OneSequence sink;
  ShardSpec spec;
  spec.model = "tests/fixtures/checkpoints/table_padded_head";
  auto shard = LocalLauncher(open_text_side).start(spec, sink);
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ((*shard)->info()->vocab_size, 10);
  SequenceRequest request;
  request.id = 1;
  request.prompt_token_ids = {1, 2};
  request.sampling.max_tokens = 100;
  request.sampling.seed = 5;
  ASSERT_TRUE((*shard)->submit({request}).ok());
  EXPECT_EQ(sink.done.get_future().get().reason, FinishReason::kLength);
  EXPECT_EQ(sink.ids.size(), 100u);
  EXPECT_LT(*std::max_element(sink.ids.begin(), sink.ids.end()), 10);
}

TEST(TextSide, AStopStringOverTwoTokensStopsTheShard) {
  OneSequence sink;
  ShardSpec spec;
  spec.model = "tests/fixtures/checkpoints/table_padded_head";
  auto shard = *LocalLauncher(open_text_side).start(spec, sink);
  SequenceRequest request;
  request.id = 1;
  request.prompt_token_ids = {1};
  request.sampling.temperature = 0.0f;
  request.sampling.stop = {"ddd"};
  ASSERT_TRUE(shard->submit({request}).ok());
  const Finish finish = sink.done.get_future().get();
  EXPECT_EQ(std::get<std::string>(finish.stop_reason), "ddd");
  EXPECT_EQ(sink.ids, (std::vector<int32_t>{3, 3, 3}));
}

}  // namespace
}  // namespace rlgen::backends
