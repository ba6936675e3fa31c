#include <gtest/gtest.h>

#include "exact/checkpoints.h"
#include "exact/digest_file.h"
#include "exact/exact_requests.h"

// What a request returns depends on the request and the weights alone: a dense model, and one of
// each family with experts, through everything that may differ around a request.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

class EngineMatrix : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<SequenceRequest> mixed(SequenceId count) const {
    return within_vocabulary(mixed_requests(count), loaded_);
  }
  // A prompt of ids that the model has.
  std::vector<int32_t> prompt_of(size_t count, uint32_t seed) const {
    return some_ids(count, std::min(kVocab, loaded_.model.decoder.spec.vocab_rows), seed);
  }

  Loaded loaded_ = load_checkpoint(GetParam());
};

// FB-056 and FB-219: the step budget and with it the borders of prefill chunks change nothing.
TEST_P(EngineMatrix, FB056_FB219_OneByOneAndTogetherOnEveryIsaThreadsAndBudget) {
  const auto requests = mixed(GetParam() == "llama" ? 64 : 16);
  const Outcomes alone = run_alone(loaded_, {.isa = "scalar"}, requests);
  const std::vector<kernels::Isa> isas = kernels::available_isas();
  for (const kernels::Isa isa : isas) {
    const std::vector<int32_t> budgets =
        isa == isas.back() ? std::vector<int32_t>{1, 7, 16, 512} : std::vector<int32_t>{16};
    for (const int32_t threads : {1, 2}) {
      for (const int32_t budget : budgets) {
        const Settings settings{
            .isa = std::string(kernels::isa_name(isa)), .threads = threads, .budget = budget};
        expect_equal(alone, run_together(loaded_, settings, requests), describe(settings));
      }
    }
  }
  DigestStream all;
  for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  EXPECT_TRUE(report_digest("engine " + GetParam(), all.digest()));
}

TEST_P(EngineMatrix, ATinyPoolPreemptsAndNobodyCanTell) {
  const auto requests = mixed(32);
  const Outcomes alone = run_alone(loaded_, {}, requests);
  int64_t preemptions = 0;
  for (const int32_t blocks : {8, 11, 20}) {
    for (const int32_t budget : {7, 64}) {
      const Settings settings{.threads = 2, .budget = budget, .kv_blocks = blocks};
      Bench bench(loaded_, settings);
      teach_short_answers(bench);
      for (const SequenceRequest& request : requests) bench.core->submit(request);
      bench.drain();
      Outcomes found;
      for (const auto& [id, outcome] : alone) found[id] = bench.sink.get(id);
      expect_equal(alone, found, describe(settings));
      preemptions += bench.core->metrics().preemptions;
    }
  }
  EXPECT_GT(preemptions, 0);
}

TEST_P(EngineMatrix, BlockSizeAndPlacesInTheBatchChangeNothing) {
  const auto requests = mixed(24);
  const Outcomes alone = run_alone(loaded_, {}, requests);
  for (const int32_t block_size : {16, 32, 48}) {
    const Settings settings{.max_num_seqs = 5, .budget = 33, .wanted = 7, .block_size = block_size};
    expect_equal(alone, run_together(loaded_, settings, requests), describe(settings));
  }
}

SequenceRequest with_prompt(SequenceRequest request, SequenceId id, std::vector<int32_t> prompt) {
  request.id = id;
  request.prompt_token_ids = std::move(prompt);
  return request;
}

// Cold, then warm twice over, in a pool that keeps everything, one that keeps some and one in which
// everything is evicted before it is asked for again.
TEST_P(EngineMatrix, FB055_ColdWarmAndPartlyEvictedAreOne) {
  const auto requests = mixed(24);
  const Outcomes alone = run_alone(loaded_, {}, requests);
  for (const int32_t blocks : {512, 64, 12}) {
    const Settings settings{.threads = 2, .budget = 37, .kv_blocks = blocks};
    Bench bench(loaded_, settings);
    for (SequenceId round = 0; round < 3; ++round) {
      for (const SequenceRequest& request : requests) {
        SequenceRequest again = request;
        again.id = request.id + 1000 * round;
        bench.core->submit(again);
      }
      bench.drain();
      Outcomes found;
      for (const auto& [id, outcome] : alone) found[id] = bench.sink.get(id + 1000 * round);
      expect_equal(alone, found, describe(settings) + ", round " + std::to_string(round));
    }
    const ShardMetrics metrics = bench.core->metrics();
    EXPECT_EQ(metrics.cache_hit_tokens > 0, blocks >= 64) << describe(settings);
    EXPECT_EQ(metrics.cache_evictions > 0, blocks < 512) << describe(settings);
  }
}

TEST_P(EngineMatrix, FB057_NoHitLengthChangesABit) {
  for (const SequenceId kind : {1, 2, 3, 4, 5, 6, 12, 20}) {
    const std::vector<int32_t> prompt = prompt_of(100, 77);
    const SequenceRequest request = with_prompt(mixed_request(kind), 1, prompt);
    const Outcomes alone = run_alone(loaded_, {}, {request});
    for (const int32_t hit : {0, 16, 48, 96}) {
      Bench bench(loaded_, {.budget = 41});
      if (hit > 0) {
        bench.run(make_request(0, {prompt.begin(), prompt.begin() + hit + 1}, 1));
      }
      const Outcome outcome = bench.run(request);
      EXPECT_EQ(outcome.finish->cached_tokens, hit);
      expect_equal(alone, {{1, outcome}}, "kind " + std::to_string(kind));
    }
  }
}

TEST_P(EngineMatrix, SamplesTogetherAreSamplesApart) {
  for (const int32_t blocks : {12, 512}) {
    std::vector<SequenceRequest> requests;
    for (SequenceId id = 0; id < 12; ++id) {
      requests.push_back(with_prompt(mixed_request(1), id, prompt_of(75, 78)));
      requests.back().sample_index = int32_t(id);
    }
    const Settings settings{.threads = 2, .budget = 50, .kv_blocks = blocks};
    expect_equal(run_alone(loaded_, {}, requests), run_together(loaded_, settings, requests),
                 describe(settings));
  }
}

TEST_P(EngineMatrix, HalfWidthKvIsExactToo) {
  const auto requests = mixed(12);
  DigestStream all;
  for (const DType kv_dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Outcomes alone = run_alone(loaded_, {.isa = "scalar", .kv_dtype = kv_dtype}, requests);
    const Settings settings{.threads = 2, .budget = 19, .kv_blocks = 11, .kv_dtype = kv_dtype};
    expect_equal(alone, run_together(loaded_, settings, requests), describe(settings));
    for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  }
  EXPECT_TRUE(report_digest("engine half kv " + GetParam(), all.digest()));
}

TEST_P(EngineMatrix, ScoringGivesTheBitsOfGenerationInEveryMode) {
  std::vector<SequenceRequest> requests = mixed(18);
  for (SequenceRequest& request : requests) {
    request.sampling.prompt_logprobs.reset();
    request.sampling.logprobs_mode = kModes[(request.id / 3) % 3];
  }
  const Outcomes generated = run_together(loaded_, {.threads = 2}, requests);
  std::vector<SequenceRequest> scored;
  for (const SequenceRequest& request : requests) {
    scored.push_back(score_request(request.id, request, generated.at(request.id)));
  }
  for (const Settings& settings : {Settings{}, Settings{.threads = 2, .budget = 7, .wanted = 5},
                                   Settings{.isa = "scalar", .kv_blocks = 11}}) {
    const Outcomes scores = run_together(loaded_, settings, scored);
    for (const auto& [id, outcome] : generated) {
      DigestStream a;
      DigestStream b;
      update_digest(&a, outcome.tokens);
      update_digest(&b, scores.at(id).tokens);
      EXPECT_EQ(a.digest(), b.digest()) << "sequence " << id << ", " << describe(settings);
      EXPECT_EQ(scores.at(id).finish->reason, FinishReason::kStop) << scores.at(id).finish->error;
    }
  }
}

TEST_P(EngineMatrix, ContinuingGivesTheUninterruptedBits) {
  std::vector<SequenceRequest> requests = mixed(24);
  for (SequenceRequest& request : requests) request.sampling.prompt_logprobs.reset();
  const Outcomes whole = run_together(loaded_, {}, requests);
  std::vector<SequenceRequest> continued;
  for (const SequenceRequest& request : requests) {
    const std::vector<int32_t> made = whole.at(request.id).ids();
    SequenceRequest rest = request;
    const auto cut = ptrdiff_t(made.size() / 2);
    rest.output_token_ids.assign(made.begin(), made.begin() + cut);
    continued.push_back(rest);
  }
  const Outcomes rests = run_together(loaded_, {.threads = 2, .budget = 31}, continued);
  for (size_t i = 0; i < continued.size(); ++i) {
    const Outcome& full = whole.at(continued[i].id);
    const size_t cut = continued[i].output_token_ids.size();
    DigestStream a;
    DigestStream b;
    update_digest(&a, {full.tokens.begin() + ptrdiff_t(cut), full.tokens.end()});
    update_digest(&b, rests.at(continued[i].id).tokens);
    EXPECT_EQ(a.digest(), b.digest()) << "sequence " << continued[i].id;
    EXPECT_EQ(full.finish->reason, rests.at(continued[i].id).finish->reason);
  }
}

std::vector<std::string> matrix_checkpoints() {
  std::vector<std::string> names = sparse_families();
  names.emplace_back("llama");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineMatrix, ::testing::ValuesIn(matrix_checkpoints()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rlgen::engine
