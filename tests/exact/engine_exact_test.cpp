#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/float_mode.h"
#include "engine/test_engine.h"
#include "exact/digest_file.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

constexpr int32_t kVocab = 160;
constexpr LogprobsMode kModes[] = {LogprobsMode::kProcessed, LogprobsMode::kRaw,
                                   LogprobsMode::kTempered};

// Prompts of 1 to about 100 ids with every kind of sampling.
SequenceRequest mixed_request(SequenceId id) {
  const auto i = int32_t(id);
  SequenceRequest request = make_request(
      id, some_ids(size_t(1 + (i * 37) % 101), kVocab, uint32_t(i)), 4 + i % 17, 1000 + i);
  SamplingParams& sampling = request.sampling;
  sampling.logprobs_mode = kModes[i % 3];
  sampling.logprobs = i % 4;
  request.sample_index = i % 5;
  if (i % 2 == 0) sampling.temperature = 0.25f + 0.125f * float(i % 11);
  if (i % 13 == 0) sampling.temperature = 0.0f;
  if (i % 3 == 0) sampling.top_p = 0.9f;
  if (i % 5 == 0) sampling.top_k = 20;
  if (i % 7 == 0) sampling.min_p = 0.05f;
  if (i % 4 == 1) sampling.repetition_penalty = 1.25f;
  if (i % 6 == 1) sampling.presence_penalty = 0.5f;
  if (i % 6 == 2) sampling.frequency_penalty = -0.25f;
  if (i % 9 == 0) sampling.logit_bias = {{3, 1.5f}, {7, -2.0f}};
  if (i % 10 == 3) sampling.bad_words_ids = {{11}, {12, 13}};
  if (i % 8 == 5) sampling.min_tokens = 3;
  if (i % 11 == 0) sampling.prompt_logprobs = 2;
  if (i % 12 == 5) sampling.stop_token_ids = {40, 41, 42};
  return request;
}

std::vector<SequenceRequest> mixed_requests(SequenceId count) {
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 0; id < count; ++id) requests.push_back(mixed_request(id));
  return requests;
}

std::vector<SequenceRequest> within_vocabulary(std::vector<SequenceRequest> requests,
                                               const Loaded& loaded) {
  for (SequenceRequest& request : requests) {
    for (int32_t& token : request.prompt_token_ids) token %= loaded.model.decoder.spec.vocab_rows;
  }
  return requests;
}

// Of this machine: flushing, rounding down, and both.
std::vector<uint64_t> hostile_control_words() {
  const uint64_t before = float_control_word();
#if defined(__x86_64__)
  constexpr uint64_t kFlush = 0x8040;
  constexpr uint64_t kDown = 0x2000;
#else
  constexpr uint64_t kFlush = uint64_t{1} << 24;
  constexpr uint64_t kDown = uint64_t{2} << 22;
#endif
  return {before | kFlush, before | kDown, before | kFlush | kDown};
}

using Outcomes = std::map<SequenceId, Outcome>;

Outcomes run_together(const Loaded& loaded, const Settings& settings,
                      const std::vector<SequenceRequest>& requests) {
  Bench bench(loaded, settings);
  for (const SequenceRequest& request : requests) bench.core->submit(request);
  bench.drain();
  Outcomes outcomes;
  for (const SequenceRequest& request : requests) outcomes[request.id] = bench.sink.get(request.id);
  return outcomes;
}

// The reference: nothing else in the batch and nothing from the prefix cache.
Outcomes run_alone(const Loaded& loaded, Settings settings,
                   const std::vector<SequenceRequest>& requests) {
  settings.prefix_caching = false;
  Bench bench(loaded, settings);
  Outcomes outcomes;
  for (const SequenceRequest& request : requests) outcomes[request.id] = bench.run(request);
  return outcomes;
}

void expect_equal(const Outcomes& expected, const Outcomes& found, const std::string& where) {
  SCOPED_TRACE(where);
  for (const auto& [id, outcome] : expected) {
    ASSERT_TRUE(outcome.finish && outcome.finish->reason != FinishReason::kError)
        << id << ": " << outcome.finish->error;
    ASSERT_EQ(digest_of_outcome(outcome), digest_of_outcome(found.at(id))) << "sequence " << id;
  }
}

std::string describe(const Settings& settings) {
  return "isa " + settings.isa + ", threads " + std::to_string(settings.threads) + ", budget " +
         std::to_string(settings.budget) + ", blocks " + std::to_string(settings.kv_blocks);
}

// FB-056 and FB-219: the step budget and with it the borders of prefill chunks change nothing.
TEST(EngineExact, FB056_FB219_OneByOneAndTogetherOnEveryIsaThreadsAndBudget) {
  const Loaded loaded = load_checkpoint("llama");
  const auto requests = mixed_requests(64);
  const Outcomes alone = run_alone(loaded, {.isa = "scalar"}, requests);
  const std::vector<kernels::Isa> isas = kernels::available_isas();
  for (const kernels::Isa isa : isas) {
    const std::vector<int32_t> budgets =
        isa == isas.back() ? std::vector<int32_t>{1, 7, 16, 512} : std::vector<int32_t>{16};
    for (const int32_t threads : {1, 2}) {
      for (const int32_t budget : budgets) {
        const Settings settings{
            .isa = std::string(kernels::isa_name(isa)), .threads = threads, .budget = budget};
        expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
      }
    }
  }
  DigestStream all;
  for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  EXPECT_TRUE(report_digest("engine", all.digest()));
}

// Answers of one token where many were allowed, so that others are expected to be as short and more
// of them are admitted than there is room for.
void teach_short_answers(Bench& bench) {
  for (SequenceId id = 10'000; id < 10'060; ++id) {
    SequenceRequest request = make_request(id, {3}, 100);
    request.sampling.allowed_token_ids = {{5}};
    request.sampling.stop_token_ids = {5};
    EXPECT_EQ(bench.run(request).tokens.size(), 1u);
  }
}

TEST(EngineExact, ATinyPoolPreemptsAndNobodyCanTell) {
  const Loaded loaded = load_checkpoint("llama");
  const auto requests = mixed_requests(32);
  const Outcomes alone = run_alone(loaded, {}, requests);
  for (const int32_t blocks : {8, 11, 20}) {
    for (const int32_t budget : {7, 64}) {
      const Settings settings{.threads = 2, .budget = budget, .kv_blocks = blocks};
      Bench bench(loaded, settings);
      teach_short_answers(bench);
      for (const SequenceRequest& request : requests) bench.core->submit(request);
      bench.drain();
      Outcomes found;
      for (const auto& [id, outcome] : alone) found[id] = bench.sink.get(id);
      expect_equal(alone, found, describe(settings));
      EXPECT_TRUE(blocks != 11 || bench.core->metrics().preemptions > 0) << describe(settings);
    }
  }
}

TEST(EngineExact, BlockSizeAndPlacesInTheBatchChangeNothing) {
  const Loaded loaded = load_checkpoint("llama");
  const auto requests = mixed_requests(24);
  const Outcomes alone = run_alone(loaded, {}, requests);
  for (const int32_t block_size : {16, 32, 48}) {
    const Settings settings{.max_num_seqs = 5, .budget = 33, .wanted = 7, .block_size = block_size};
    expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
  }
}

SequenceRequest with_prompt(SequenceRequest request, SequenceId id, std::vector<int32_t> prompt) {
  request.id = id;
  request.prompt_token_ids = std::move(prompt);
  return request;
}

// Cold, then warm twice over, in a pool that keeps everything, one that keeps some and one in which
// everything is evicted before it is asked for again.
TEST(EngineExact, FB055_ColdWarmAndPartlyEvictedAreOne) {
  const Loaded loaded = load_checkpoint("llama");
  const auto requests = mixed_requests(24);
  const Outcomes alone = run_alone(loaded, {}, requests);
  for (const int32_t blocks : {512, 40, 12}) {
    const Settings settings{.threads = 2, .budget = 37, .kv_blocks = blocks};
    Bench bench(loaded, settings);
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
    EXPECT_EQ(metrics.cache_hit_tokens > 0, blocks >= 40) << describe(settings);
    EXPECT_EQ(metrics.cache_evictions > 0, blocks < 512) << describe(settings);
  }
}

TEST(EngineExact, FB057_NoHitLengthChangesABit) {
  const Loaded loaded = load_checkpoint("llama");
  for (const SequenceId kind : {1, 2, 3, 4, 5, 6, 12, 20}) {
    const std::vector<int32_t> prompt = some_ids(100, kVocab, 77);
    const SequenceRequest request = with_prompt(mixed_request(kind), 1, prompt);
    const Outcomes alone = run_alone(loaded, {}, {request});
    for (const int32_t hit : {0, 16, 48, 96}) {
      Bench bench(loaded, {.budget = 41});
      if (hit > 0) {
        bench.run(make_request(0, {prompt.begin(), prompt.begin() + hit + 1}, 1));
      }
      const Outcome outcome = bench.run(request);
      EXPECT_EQ(outcome.finish->cached_tokens, hit);
      expect_equal(alone, {{1, outcome}}, "kind " + std::to_string(kind));
    }
  }
}

TEST(EngineExact, SamplesTogetherAreSamplesApart) {
  const Loaded loaded = load_checkpoint("llama");
  for (const int32_t blocks : {12, 512}) {
    std::vector<SequenceRequest> requests;
    for (SequenceId id = 0; id < 12; ++id) {
      requests.push_back(with_prompt(mixed_request(1), id, some_ids(75, kVocab, 78)));
      requests.back().sample_index = int32_t(id);
    }
    const Settings settings{.threads = 2, .budget = 50, .kv_blocks = blocks};
    expect_equal(run_alone(loaded, {}, requests), run_together(loaded, settings, requests),
                 describe(settings));
  }
}

TEST(EngineExact, HalfWidthKvIsExactToo) {
  const Loaded loaded = load_checkpoint("llama");
  const auto requests = mixed_requests(24);
  DigestStream all;
  for (const DType kv_dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Outcomes alone = run_alone(loaded, {.isa = "scalar", .kv_dtype = kv_dtype}, requests);
    const Settings settings{.threads = 2, .budget = 19, .kv_blocks = 11, .kv_dtype = kv_dtype};
    expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
    for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  }
  EXPECT_TRUE(report_digest("engine half kv", all.digest()));
}

TEST(EngineExact, TheBfloat16ProfileIsExactToo) {
  DigestStream all;
  for (const char* name : {"llama_tied", "smollm3", "mistral"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(12), loaded);
    Settings settings{.isa = "scalar", .profile = kernels::Profile::kBFloat16};
    const Outcomes alone = run_alone(loaded, settings, requests);
    settings = {.threads = 2, .budget = 19, .kv_blocks = 24, .profile = settings.profile};
    for (const kernels::Isa isa : kernels::available_isas()) {
      settings.isa = kernels::isa_name(isa);
      expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
    }
    const Outcomes unrounded = run_alone(loaded, {}, requests);
    EXPECT_NE(digest_of_outcome(alone.at(2)), digest_of_outcome(unrounded.at(2)));
    for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  }
  EXPECT_TRUE(report_digest("engine bfloat16 profile", all.digest()));
}

// Hosts set rounding and flush modes for their own ends, in the thread that calls and before the
// engine's threads are made.
TEST(EngineExact, TheCallersFloatModesDoNotReachAnyThread) {
  const Loaded loaded = load_checkpoint("llama_tied");
  const auto requests = within_vocabulary(mixed_requests(12), loaded);
  for (const kernels::Profile profile : {kernels::Profile::kFloat32, kernels::Profile::kBFloat16}) {
    const Settings settings{.threads = 2, .budget = 19, .profile = profile};
    const Outcomes alone = run_alone(loaded, settings, requests);
    const uint64_t before = float_control_word();
    for (const uint64_t hostile : hostile_control_words()) {
      set_float_control_word(hostile);
      const Outcomes found = run_together(loaded, settings, requests);
      set_float_control_word(before);
      expect_equal(alone, found, "control word " + std::to_string(hostile));
    }
  }
}

TEST(EngineExact, EveryFamilyAloneAndTogether) {
  DigestStream all;
  for (const char* name :
       {"llama_tied", "llama_fp16", "llama_bias", "llama_rope_llama3", "llama_rope_yarn",
        "llama_rope_longrope", "mistral", "qwen2", "qwen2_window", "qwen3", "smollm3"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(10), loaded);
    const Outcomes alone = run_alone(loaded, {.isa = "scalar"}, requests);
    const Settings settings{.threads = 2, .budget = 19, .kv_blocks = 24};
    expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
    for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  }
  EXPECT_TRUE(report_digest("engine families", all.digest()));
}

TEST(EngineExact, ScoringGivesTheBitsOfGenerationInEveryMode) {
  const Loaded loaded = load_checkpoint("llama");
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 0; id < 36; ++id) {
    SequenceRequest request = mixed_request(id);
    request.sampling.prompt_logprobs.reset();
    request.sampling.logprobs_mode = kModes[(id / 3) % 3];
    requests.push_back(request);
  }
  const Outcomes generated = run_together(loaded, {.threads = 2}, requests);
  std::vector<SequenceRequest> scored;
  for (const SequenceRequest& request : requests) {
    scored.push_back(score_request(request.id, request, generated.at(request.id)));
  }
  for (const Settings& settings : {Settings{}, Settings{.threads = 2, .budget = 7, .wanted = 5},
                                   Settings{.isa = "scalar", .kv_blocks = 11}}) {
    const Outcomes scores = run_together(loaded, settings, scored);
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

TEST(EngineExact, ContinuingGivesTheUninterruptedBits) {
  const Loaded loaded = load_checkpoint("qwen3");
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 0; id < 24; ++id) {
    SequenceRequest request = mixed_request(id);
    request.sampling.prompt_logprobs.reset();
    for (int32_t& token : request.prompt_token_ids) token %= loaded.model.decoder.spec.vocab_rows;
    requests.push_back(request);
  }
  const Outcomes whole = run_together(loaded, {}, requests);
  std::vector<SequenceRequest> continued;
  for (const SequenceRequest& request : requests) {
    const std::vector<int32_t> made = whole.at(request.id).ids();
    SequenceRequest rest = request;
    const auto cut = ptrdiff_t(made.size() / 2);
    rest.output_token_ids.assign(made.begin(), made.begin() + cut);
    continued.push_back(rest);
  }
  const Outcomes rests = run_together(loaded, {.threads = 2, .budget = 31}, continued);
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

}  // namespace
}  // namespace rlgen::engine
