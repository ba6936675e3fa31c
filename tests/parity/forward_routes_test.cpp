#include <gtest/gtest.h>

#include <algorithm>

#include "parity/checkpoint_runner.h"

// Which experts each row goes through: the same however a sequence is cut, whatever else is in the
// step and whichever rows are wanted; and, given from outside, used as they are.
namespace rlgen::parity {
namespace {

constexpr int64_t kRoutedTokens = 60;

using Routes = std::vector<int32_t>;

RunOptions quickest() { return {.isa = kernels::available_isas().back(), .threads = 2}; }

class ForwardRoutes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto model = load_model(checkpoint_folder(GetParam()), 128);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
    axis_ = models::route_axis(model_.decoder.spec);
    tokens_ = some_tokens(model_, kRoutedTokens, 1);
    SequenceRun run(model_, 1, int32_t(kRoutedTokens), {});
    run.record_routes();
    logits_ = run.feed(0, tokens_);
    routes_ = run.routes();
  }

  size_t row_size() const { return size_t(axis_.layers * axis_.top_k); }

  std::vector<float> replay(const Routes& given) {
    SequenceRun run(model_, 1, int32_t(kRoutedTokens), quickest());
    run.give_routes(given);
    run.record_routes();
    std::vector<float> logits = run.feed(0, tokens_);
    replayed_ = run.routes();
    return logits;
  }

  LoadedModel model_;
  models::RouteAxis axis_{};
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;  // scalar, one thread, in one go
  Routes routes_;
  Routes replayed_;
};

TEST_P(ForwardRoutes, AreDistinctExpertsOfTheModel) {
  ASSERT_EQ(routes_.size(), size_t(kRoutedTokens) * row_size());
  for (auto at = routes_.begin(); at != routes_.end(); at += axis_.top_k) {
    Routes ids(at, at + axis_.top_k);
    std::ranges::sort(ids);
    EXPECT_TRUE(ids.front() >= 0 && ids.back() < axis_.experts);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
  }
}

TEST_P(ForwardRoutes, EveryIsaThreadCountAndChunk) {
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const int64_t chunk : {int64_t(1), int64_t(7), kRoutedTokens}) {
      SequenceRun run(model_, 1, int32_t(kRoutedTokens),
                      {.isa = isa, .threads = chunk == 7 ? 2 : 1});
      run.record_routes();
      Routes found;
      for (int64_t begin = 0; begin < kRoutedTokens; begin += chunk) {
        const int64_t end = std::min(begin + chunk, kRoutedTokens);
        run.feed(0, {tokens_.begin() + begin, tokens_.begin() + end});
        found.insert(found.end(), run.routes().begin(), run.routes().end());
      }
      EXPECT_EQ(found, routes_) << kernels::isa_name(isa) << ", chunks of " << chunk;
    }
  }
}

// Also where the last layer has experts and its rows are not wanted.
TEST_P(ForwardRoutes, EveryRowHasThemWhicheverRowsAreWanted) {
  for (const Routes& wanted : {Routes{}, Routes{kRoutedTokens - 1}, Routes{0, 9, 30}}) {
    SequenceRun run(model_, 1, int32_t(kRoutedTokens), quickest());
    run.record_routes();
    const Feed feed{0, tokens_};
    const std::vector<float> logits = run.step(std::span(&feed, 1), wanted);
    EXPECT_EQ(run.routes(), routes_);
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(logits_row(logits, model_, int64_t(i)),
                                     logits_row(logits_, model_, wanted[i])));
    }
  }
}

TEST_P(ForwardRoutes, RecordingChangesNoLogit) {
  SequenceRun run(model_, 1, int32_t(kRoutedTokens), quickest());
  EXPECT_EQ(run.feed(0, tokens_), logits_);
  EXPECT_TRUE(std::ranges::all_of(run.routes(), [](int32_t id) { return id == -7; }));
}

TEST_P(ForwardRoutes, GivenBackTheyGiveTheSameBits) {
  EXPECT_EQ(replay(routes_), logits_);
  EXPECT_EQ(replayed_, routes_);
  // Some rows the router's.
  Routes partly = routes_;
  for (size_t row = 0; row < size_t(kRoutedTokens); row += 3) partly[row * row_size()] = -1;
  EXPECT_EQ(replay(partly), logits_);
  EXPECT_EQ(replayed_, routes_);
  EXPECT_EQ(replay(Routes(routes_.size(), -1)), logits_);
}

TEST_P(ForwardRoutes, GivenOnesReachTheWantedRowsOfTheLastLayer) {
  const Routes wanted = {5, 41};
  SequenceRun run(model_, 1, int32_t(kRoutedTokens), quickest());
  run.give_routes(routes_);
  const Feed feed{0, tokens_};
  const std::vector<float> logits = run.step(std::span(&feed, 1), wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(logits_row(logits, model_, int64_t(i)),
                                   logits_row(logits_, model_, wanted[i])));
  }
}

TEST_P(ForwardRoutes, AlteredOnesChangeTheirRowAndLaterOnes) {
  constexpr int64_t kRow = 30;
  Routes altered = routes_;
  const auto row = altered.begin() + int64_t(row_size()) * kRow;
  int32_t other = 0;
  while (std::find(row, row + axis_.top_k, other) != row + axis_.top_k) ++other;
  *row = other;
  const std::vector<float> logits = replay(altered);
  EXPECT_EQ(replayed_, altered);
  for (const int64_t r : {int64_t(0), kRow - 1, kRow}) {
    EXPECT_EQ(std::ranges::equal(logits_row(logits, model_, r), logits_row(logits_, model_, r)),
              r < kRow)
        << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ForwardRoutes, ::testing::ValuesIn(sparse_checkpoints()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rlgen::parity
