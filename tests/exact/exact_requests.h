#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/test_engine.h"

// Requests of every kind, and what they give alone and together.
namespace rlgen::engine::test {

inline constexpr int32_t kVocab = 160;
inline constexpr LogprobsMode kModes[] = {LogprobsMode::kProcessed, LogprobsMode::kRaw,
                                          LogprobsMode::kTempered};

// Prompts of 1 to about 100 ids with every kind of sampling.
inline SequenceRequest mixed_request(SequenceId id) {
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

inline std::vector<SequenceRequest> mixed_requests(SequenceId count) {
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 0; id < count; ++id) requests.push_back(mixed_request(id));
  return requests;
}

inline std::vector<SequenceRequest> within_vocabulary(std::vector<SequenceRequest> requests,
                                                      const Loaded& loaded) {
  for (SequenceRequest& request : requests) {
    for (int32_t& token : request.prompt_token_ids) token %= loaded.model.decoder.spec.vocab_rows;
  }
  return requests;
}

using Outcomes = std::map<SequenceId, Outcome>;

inline Outcomes run_together(const Loaded& loaded, const Settings& settings,
                             const std::vector<SequenceRequest>& requests) {
  Bench bench(loaded, settings);
  for (const SequenceRequest& request : requests) bench.core->submit(request);
  bench.drain();
  Outcomes outcomes;
  for (const SequenceRequest& request : requests) outcomes[request.id] = bench.sink.get(request.id);
  return outcomes;
}

// The reference: nothing else in the batch and nothing from the prefix cache.
inline Outcomes run_alone(const Loaded& loaded, Settings settings,
                          const std::vector<SequenceRequest>& requests) {
  settings.prefix_caching = false;
  Bench bench(loaded, settings);
  Outcomes outcomes;
  for (const SequenceRequest& request : requests) outcomes[request.id] = bench.run(request);
  return outcomes;
}

inline void expect_equal(const Outcomes& expected, const Outcomes& found,
                         const std::string& where) {
  SCOPED_TRACE(where);
  for (const auto& [id, outcome] : expected) {
    ASSERT_TRUE(outcome.finish && outcome.finish->reason != FinishReason::kError)
        << id << ": " << outcome.finish->error;
    ASSERT_EQ(digest_of_outcome(outcome), digest_of_outcome(found.at(id))) << "sequence " << id;
  }
}

// Every sequence has a row of routes for each token but the last.
inline void expect_whole(const Outcomes& outcomes, const std::vector<SequenceRequest>& requests) {
  for (const SequenceRequest& request : requests) {
    const Outcome& outcome = outcomes.at(request.id);
    ASSERT_EQ(size_t(outcome.routes.rows()),
              request.prompt_token_ids.size() + outcome.tokens.size() - 1);
  }
}

inline std::string describe(const Settings& settings) {
  return "isa " + settings.isa + ", threads " + std::to_string(settings.threads) + ", budget " +
         std::to_string(settings.budget) + ", blocks " + std::to_string(settings.kv_blocks);
}

// Answers of one token where many were allowed, so that others are expected to be as short and more
// of them are admitted than there is room for.
inline void teach_short_answers(Bench& bench) {
  for (SequenceId id = 10'000; id < 10'060; ++id) {
    SequenceRequest request = make_request(id, {3}, 100);
    request.sampling.allowed_token_ids = {{5}};
    request.sampling.stop_token_ids = {5};
    EXPECT_EQ(bench.run(request).tokens.size(), 1u);
  }
}

}  // namespace rlgen::engine::test
