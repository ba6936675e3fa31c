#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/json_document.h"
#include "parity/checkpoint_runner.h"

// The forward pass against log-probabilities and greedy tokens of Hugging Face Transformers in
// float32 (tests/fixtures/parity, described in docs/fixtures.md).
namespace rlgen::parity {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kTolerance = 2e-4;
// An expert that Transformers chose with less of a lead in probability may be another here.
constexpr double kTie = 1e-5;

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator("tests/fixtures/parity")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

struct Case {
  json document;
  LoadedModel model;
  int64_t limit = 0;  // ids from here on are masked
  int32_t max_model_len = 0;
};

class ForwardParity : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string file = "tests/fixtures/parity/" + GetParam() + ".json";
    auto document = models::read_json_file(file);
    ASSERT_TRUE(document.ok()) << document.status();
    case_.document = *document;
    ASSERT_EQ(case_.document["schema"], 1);
    const std::string checkpoint = case_.document["checkpoint"];
    std::string folder = checkpoint_folder(checkpoint);
    if (!fs::exists(folder)) folder = "models/" + checkpoint;
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not here";
    case_.max_model_len = case_.document["max_model_len"];
    auto model = load_model(folder, case_.max_model_len);
    ASSERT_TRUE(model.ok()) << model.status();
    case_.model = *model;
    const json& masked = case_.document["masked_from"];
    case_.limit = masked.is_null() ? case_.model.decoder.spec.vocab_rows : masked.get<int64_t>();
  }

  RunOptions options() const { return {.isa = kernels::available_isas().back(), .threads = 2}; }

  std::vector<float> in_one_go(const std::vector<int32_t>& tokens) {
    SequenceRun run(case_.model, 1, int32_t(tokens.size()), options());
    return run.feed(0, tokens);
  }

  std::vector<float> one_by_one(const std::vector<int32_t>& tokens) {
    SequenceRun run(case_.model, 1, int32_t(tokens.size()), options());
    std::vector<float> logits;
    for (const int32_t token : tokens) {
      const std::vector<float> row = run.feed(0, {token});
      logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
  }

  void expect_logprobs(const std::vector<float>& logits, const std::vector<int32_t>& tokens,
                       const std::vector<double>& expected) {
    ASSERT_EQ(expected.size() + 1, tokens.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto row = logits_row(logits, case_.model, int64_t(i));
      ASSERT_NEAR(logprob(row, case_.limit, tokens[i + 1]), expected[i], kTolerance)
          << "position " << i;
    }
  }

  Case case_;
};

TEST_P(ForwardParity, LogprobsOfWholePrefill) {
  for (const json& sequence : case_.document["sequences"]) {
    const std::vector<int32_t> tokens = sequence["token_ids"];
    expect_logprobs(in_one_go(tokens), tokens, sequence["logprobs"]);
  }
}

TEST_P(ForwardParity, TokenByTokenGivesTheSameBits) {
  for (const json& sequence : case_.document["sequences"]) {
    const std::vector<int32_t> tokens = sequence["token_ids"];
    const std::vector<float> logits = one_by_one(tokens);
    expect_logprobs(logits, tokens, sequence["logprobs"]);
    EXPECT_EQ(logits, in_one_go(tokens));
  }
}

TEST_P(ForwardParity, GreedyTokens) {
  for (const json& sequence : case_.document["sequences"]) {
    const std::vector<int32_t> tokens = sequence["token_ids"];
    const std::vector<int32_t> expected = sequence["greedy"];
    const auto prompt = tokens.begin() + sequence["greedy_prompt_len"].get<int64_t>();
    std::vector<int32_t> next(tokens.begin(), prompt);
    SequenceRun run(case_.model, 1, int32_t(next.size() + expected.size()), options());
    std::vector<int32_t> greedy;
    while (greedy.size() < expected.size()) {
      const std::vector<float> logits = run.feed(0, next);
      const auto last = logits_row(logits, case_.model, int64_t(next.size()) - 1);
      next = {argmax(last, case_.limit)};
      greedy.push_back(next[0]);
    }
    EXPECT_EQ(greedy, expected);
  }
}

TEST_P(ForwardParity, Routes) {
  const models::RouteAxis axis = models::route_axis(case_.model.decoder.spec);
  int64_t routes = 0;
  int64_t ties = 0;
  for (const json& sequence : case_.document["sequences"]) {
    ASSERT_EQ(sequence.contains("routes"), axis.layers > 0);
    if (axis.layers == 0) continue;
    const std::vector<int32_t> tokens = sequence["token_ids"];
    SequenceRun run(case_.model, 1, int32_t(tokens.size()), options());
    run.record_routes();
    run.feed(0, tokens);
    auto found = run.routes().begin();
    for (size_t token = 0; token < tokens.size(); ++token) {
      for (size_t layer = 0; layer < size_t(axis.layers); ++layer, found += axis.top_k) {
        ++routes;
        const std::vector<int32_t> expected = sequence["routes"][token][layer];
        if (std::equal(expected.begin(), expected.end(), found, found + axis.top_k)) continue;
        ASSERT_LT(sequence["route_leads"][token][layer].get<double>(), kTie)
            << "token " << token << ", sparse layer " << layer;
        ++ties;
      }
    }
  }
  RecordProperty("routes", int(routes));
  RecordProperty("ties", int(ties));
  EXPECT_LE(ties * 100, routes);
}

INSTANTIATE_TEST_SUITE_P(Cases, ForwardParity, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rlgen::parity
