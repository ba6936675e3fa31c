#include <gtest/gtest.h>

#include "exact/exact_requests.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

class TailExact : public ::testing::TestWithParam<std::string> {};

// A prompt that ends inside a block: whoever comes later copies what stands before its last row,
// from the first one, which may still be at it, or from another where the first one is aborted.
TEST_P(TailExact, SamplesShareTheBlockInWhichTheirPromptEnds) {
  const Loaded loaded = load_checkpoint(GetParam());
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 0; id < 5; ++id) {
    requests.push_back(mixed_request(1));
    requests.back().id = id;
    requests.back().prompt_token_ids = some_ids(75, kVocab, 79);
    requests.back().sample_index = int32_t(id);
  }
  requests = within_vocabulary(std::move(requests), loaded);
  const Outcomes alone = run_alone(loaded, {}, {requests.begin() + 1, requests.end()});
  for (const int32_t block_size : {16, 48, 1024}) {
    for (const int32_t steps : {1, 2, 4}) {
      const Settings settings{
          .threads = 2, .budget = 71, .kv_blocks = 40, .block_size = block_size};
      Bench bench(loaded, settings);
      for (const SequenceRequest& request : requests) bench.core->submit(request);
      for (int i = 0; i < steps; ++i) bench.core->step(Admission::kAll);
      bench.core->cancel(0);
      bench.drain();
      Outcomes found;
      for (const auto& [id, outcome] : alone) found[id] = bench.sink.get(id);
      expect_equal(alone, found, describe(settings) + ", block size " + std::to_string(block_size));
      // Two steps compute the prompt. Before, full blocks alone are left of it.
      const int32_t left = steps < 2 ? 71 / block_size * block_size : 74;
      EXPECT_EQ(found[1].finish->cached_tokens, left);
      for (const SequenceId id : {2, 3, 4}) EXPECT_EQ(found[id].finish->cached_tokens, 74);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, TailExact,
                         ::testing::Values("llama", "qwen3_moe", "gpt_oss", "deepseek_v3"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rlgen::engine
