#include <gtest/gtest.h>

#include <cstring>

#include "exact/digest_file.h"
#include "parity/checkpoint_runner.h"

// What a row's logits are depends on the row's own sequence and the weights alone: the same bits
// however the sequence is cut, whatever else is in the step, on every instruction set and any
// number of threads.
namespace rlgen::parity {
namespace {

constexpr int64_t kTokens = 75;

class ForwardBits : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto model = load_model(checkpoint_folder(GetParam()), 128);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
    tokens_ = some_tokens(model_, kTokens, 1);
    expected_ = in_chunks(kTokens, {});
  }

  std::vector<float> in_chunks(int64_t chunk, RunOptions options) {
    SequenceRun run(model_, 1, int32_t(kTokens), options);
    std::vector<float> logits;
    for (int64_t begin = 0; begin < kTokens; begin += chunk) {
      const int64_t end = std::min(begin + chunk, kTokens);
      const std::vector<float> part = run.feed(0, {tokens_.begin() + begin, tokens_.begin() + end});
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }

  bool same_bits(const std::vector<float>& logits) const {
    return logits.size() == expected_.size() &&
           std::memcmp(logits.data(), expected_.data(), logits.size() * sizeof(float)) == 0;
  }

  LoadedModel model_;
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;  // [kTokens, vocab_rows], scalar, one thread, in one go
};

TEST_P(ForwardBits, EveryIsaThreadCountAndChunk) {
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const int64_t chunk : {int64_t(1), int64_t(5), int64_t(16), int64_t(33), kTokens}) {
      const int threads = chunk % 2 == 0 ? 1 : 2;
      EXPECT_TRUE(same_bits(in_chunks(chunk, {.isa = isa, .threads = threads})))
          << kernels::isa_name(isa) << ", chunks of " << chunk;
    }
  }
}

TEST_P(ForwardBits, BlockSizeChangesNothing) {
  const kernels::Isa isa = kernels::available_isas().back();
  EXPECT_TRUE(same_bits(in_chunks(20, {.isa = isa, .block_size = 48})));
}

// The sequence among others that start, go on and end at other times.
TEST_P(ForwardBits, CompanyChangesNothing) {
  constexpr int32_t kOthers = 6;
  const RunOptions options{.isa = kernels::available_isas().back(), .threads = 2};
  SequenceRun run(model_, kOthers + 1, 128, options);
  std::vector<float> logits;
  std::vector<int64_t> lengths(kOthers, 0);
  int64_t fed = 0;
  for (int64_t turn = 0; fed < kTokens; ++turn) {
    std::vector<Feed> feeds;
    int64_t first_row = 0;
    for (int32_t other = 0; other < kOthers; ++other) {
      const int64_t count = turn % (other + 1) == 0 ? 1 + other * 2 : 1;
      if (lengths[size_t(other)] + count > 128 || turn < other) continue;
      lengths[size_t(other)] += count;
      feeds.push_back({other, some_tokens(model_, count, uint32_t(turn * 10 + other))});
      if (other < 3) first_row += count;
    }
    const int64_t count = std::min<int64_t>(turn == 3 ? 20 : 1 + turn % 2, kTokens - fed);
    const size_t place =
        std::ranges::count_if(feeds, [](const Feed& feed) { return feed.sequence < 3; });
    feeds.insert(feeds.begin() + ptrdiff_t(place),
                 Feed{kOthers, {tokens_.begin() + fed, tokens_.begin() + fed + count}});
    std::vector<int32_t> wanted(size_t(count), 0);
    for (int64_t i = 0; i < count; ++i) wanted[size_t(i)] = int32_t(first_row + i);
    const std::vector<float> part = run.step(feeds, wanted);
    logits.insert(logits.end(), part.begin(), part.end());
    fed += count;
  }
  EXPECT_TRUE(same_bits(logits));
}

TEST_P(ForwardBits, WantedRowsAloneGiveTheirLogits) {
  const std::vector<int32_t> wanted = {0, 7, 8, 40, int32_t(kTokens) - 1};
  SequenceRun run(model_, 1, int32_t(kTokens), {.isa = kernels::available_isas().back()});
  const Feed feed{0, tokens_};
  const std::vector<float> logits = run.step(std::span(&feed, 1), wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(logits_row(logits, model_, int64_t(i)),
                                   logits_row(expected_, model_, wanted[i])))
        << "row " << wanted[i];
  }
}

TEST_P(ForwardBits, StepsWithoutWantedRowsStillFillTheCache) {
  SequenceRun run(model_, 1, int32_t(kTokens), {.isa = kernels::available_isas().back()});
  const Feed first{0, {tokens_.begin(), tokens_.end() - 1}};
  EXPECT_TRUE(run.step(std::span(&first, 1), {}).empty());
  const std::vector<float> logits = run.feed(0, {tokens_.back()});
  EXPECT_TRUE(std::ranges::equal(logits, logits_row(expected_, model_, kTokens - 1)));
}

TEST_P(ForwardBits, ReportsItsDigest) {
  EXPECT_TRUE(
      report_digest("forward_" + GetParam(), digest_of(std::as_bytes(std::span(expected_)))));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ForwardBits, ::testing::ValuesIn(tiny_checkpoints()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rlgen::parity
