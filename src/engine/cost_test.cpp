#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "engine/test_engine.h"
#include "kernels/philox.h"
#include "kernels/sampling.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

template <typename Fn>
double seconds_of(Fn fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// 256 rows as a step without options has them, against the three calls that no sampler can do
// without. What the options could cost is what lies between.
TEST(Cost, FB228_OptionsThatNobodyUsesCostNothing) {
  constexpr int kRows = 256;
  constexpr int32_t kVocab = 8192;
  const kernels::KernelTable& table = **kernels::select_kernels("auto");
  std::vector<float> logits(kVocab);
  for (int32_t i = 0; i < kVocab; ++i) logits[size_t(i)] = float((i * 7919) % 1000) * 0.01f;
  std::vector<float> weights(kVocab);
  std::vector<double> blocks(size_t(kernels::row_blocks(kVocab)));
  SamplingParams params;
  params.seed = 5;
  SampleScratch scratch;
  TokenRecord record;
  const std::vector<int32_t> prompt(1000, 3);
  int64_t drawn = 0;
  int64_t sampled = 0;
  const auto bare = [&] {
    for (int row = 0; row < kRows; ++row) {
      const kernels::RowSums sums =
          table.row_sums(logits.data(), kVocab, weights.data(), blocks.data());
      const int32_t token = kernels::draw(weights.data(), blocks.data(), kVocab,
                                          kernels::uniform(5, 0, uint64_t(row)));
      drawn += token + (kernels::row_logprob(sums, logits[size_t(token)]) > 0.0f ? 1 : 0);
    }
  };
  const auto whole = [&] {
    for (int row = 0; row < kRows; ++row) {
      const SampleRow input{.logits = logits,
                            .vocab_size = kVocab,
                            .params = &params,
                            .prompt = prompt,
                            .position = row};
      EXPECT_TRUE(sample_token(table, input, &scratch, &record).ok());
      sampled += record.token;
    }
  };
  double bare_time = 1e9;
  double whole_time = 1e9;
  // In turns, until a moment was quiet for both.
  for (int turn = 0; turn < 400 && (turn < 20 || whole_time >= bare_time * 1.2); ++turn) {
    bare_time = std::min(bare_time, seconds_of(bare));
    whole_time = std::min(whole_time, seconds_of(whole));
  }
  EXPECT_EQ(drawn, sampled);
  std::printf("sampling 256 plain rows of 8192: %.0f us, bare %.0f us\n", whole_time * 1e6,
              bare_time * 1e6);
  // Sampling is a twentieth of a step, and a fiftieth of a step is allowed.
  EXPECT_LT(whole_time, bare_time * 1.2);
}

// Counts what comes and keeps none of it.
class CountingSink final : public EventSink {
 public:
  void on_events(EventBatch events) override {
    for (const SequenceEvent& event : events) {
      tokens += int64_t(event.tokens.size());
      for (const TokenRecord& record : event.tokens) entries += int64_t(record.top.size());
      finished += event.finish ? 1 : 0;
      wrong += event.finish && event.finish->reason != FinishReason::kStop ? 1 : 0;
    }
  }
  int64_t tokens = 0;
  int64_t entries = 0;
  int64_t finished = 0;
  int64_t wrong = 0;
};

// Bytes that are allocated and not freed. A sanitizer's allocator says nothing.
int64_t live_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
}

TEST(Cost, FB229_ScoringKeepsNoRowOfTheVocabulary) {
  const Loaded loaded = load_checkpoint("llama");
  CountingSink sink;
  auto core =
      *EngineCore::create(make_options(loaded, {}), make_parts(loaded, {.kv_blocks = 64}, &sink));
  core->set_weights(loaded.store->current(), KvPolicy::kRecompute);
  SequenceId next = 0;
  const auto score = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto seed = uint32_t(++next);
      SequenceRequest request = make_request(next, some_ids(8, 160, seed), 100);
      request.score_only = true;
      request.output_token_ids = some_ids(100, 160, seed + 7);
      request.sampling.logprobs = 3;
      core->submit(std::move(request));
      if (i % 8 == 7) core->step(Admission::kAll);
    }
    while (core->step(Admission::kAll)) {
    }
  };
  score(200);
  const int64_t before = live_bytes();
  score(1000);
  const int64_t grown = live_bytes() - before;
  // The rows of 1,000 scores would be 64 MB.
  EXPECT_LT(grown, 1 << 20) << before << " bytes before";
  EXPECT_EQ(sink.finished, 1200);
  EXPECT_EQ(sink.wrong, 0);
  EXPECT_EQ(sink.tokens, 1200 * 100);
  EXPECT_EQ(sink.entries, sink.tokens * 3);
}

}  // namespace
}  // namespace rlgen::engine
