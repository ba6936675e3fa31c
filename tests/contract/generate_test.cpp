#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/local/local_launcher.h"
#include "backends/local/text_side.h"
#include "contract/batch/generation_specs.h"
#include "contract/config/generation_config.h"
#include "generation/datum_requests.h"
#include "generation/generation.h"
#include "generation/shard_setup.h"
#include "generation/text_session.h"

// The promises about batches, kept by real engines on checkpoints whose logits are known by hand
// (docs/fixtures.md).
namespace rlgen {
namespace {

using generation::Generation;
using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using Ids = std::vector<int64_t>;

constexpr int64_t kPad = 1;

// An engine with its configuration.
struct Toy {
  GenerationConfig config;
  std::unique_ptr<Generation> generation;
};

Toy start_toy(const std::string& checkpoint, const json& extra = json::object()) {
  json file{{"backend", "rlgen"},
            {"max_new_tokens", 6},
            {"temperature", 1.0},
            {"top_p", 1.0},
            {"top_k", nullptr},
            {"val_temperature", 1.0},
            {"val_top_p", 1.0},
            {"val_top_k", nullptr},
            {"model_name", "tests/fixtures/checkpoints/" + checkpoint},
            {"stop_token_ids", nullptr},
            {"stop_strings", nullptr},
            {"rlgen_cfg", {{"num_threads", 1}}}};
  file.update(extra);
  auto config = read_generation_config(file);
  EXPECT_TRUE(config.ok()) << config.status();
  generation::GenerationOptions options;
  if (const auto text = generation::TextSession::open(config->model_name); text.ok()) {
    options.bad_words = [text = *text](const std::string& word) {
      return text->bad_word_ids(word);
    };
  }
  backends::LocalLauncher launcher(backends::open_text_side);
  auto started = Generation::start(launcher, generation::shard_specs(*config), std::move(options));
  EXPECT_TRUE(started.ok()) << started.status();
  finalize_generation_config(
      {.pad_token_id = kPad, .eos_token_ids = (*started)->info().eos_token_ids}, {}, &*config);
  return {*config, *std::move(started)};
}

struct Prompts {
  HostTensor ids;
  HostTensor lengths;
  std::vector<std::vector<std::string>> stop_strings;
  std::vector<int64_t> seeds;
};

// One prompt of one token for each of `firsts`.
Prompts one_token_each(const Ids& firsts) {
  Prompts prompts{HostTensor(DType::kInt64, Shape{static_cast<int64_t>(firsts.size()), 1}),
                  HostTensor::of(Ids(firsts.size(), 1)),
                  {},
                  {}};
  EXPECT_TRUE(write_integers(firsts, &prompts.ids).ok());
  return prompts;
}

GenerationOutputSpec run(Toy& toy, const Prompts& prompts, bool greedy) {
  const GenerationDatumSpec datum{.input_ids = prompts.ids.view(),
                                  .input_lengths = prompts.lengths.view(),
                                  .stop_strings = prompts.stop_strings,
                                  .seeds = prompts.seeds};
  auto batch = generation::generate_batch(*toy.generation, datum, toy.config,
                                          {.greedy = greedy, .params = std::nullopt});
  EXPECT_TRUE(batch.ok()) << batch.status();
  return *std::move(batch);
}

// The generated tokens of row `row` of prompts with one token.
Ids generated(const GenerationOutputSpec& batch, size_t row) {
  const Ids ids = *read_integers(batch.output_ids.view());
  const Ids lengths = *read_integers(batch.generation_lengths.view());
  const auto width = static_cast<size_t>(batch.output_ids.shape()[1]);
  const auto begin = ids.begin() + static_cast<int64_t>(row * width) + 1;
  return {begin, begin + lengths[row]};
}

float logprob_at(const GenerationOutputSpec& batch, int64_t row, int64_t place) {
  return batch.logprobs.as<float>()[row * batch.logprobs.shape()[1] + place];
}

TEST(ContractGenerate, T6_T7_AStopStringIsTheRowsOwnAndStaysInTheOutput) {
  Toy toy = start_toy("table_stories");
  Prompts prompts = one_token_each({10, 10});
  prompts.stop_strings = {{"lo w"}, {}};
  const auto batch = run(toy, prompts, true);
  EXPECT_THAT(generated(batch, 0), ElementsAre(11, 12));
  EXPECT_THAT(generated(batch, 1), ElementsAre(11, 12, 13, 0));
  EXPECT_THAT(batch.finish_reasons, Each("stop"));
}

TEST(ContractGenerate, T6_TheConfiguredStopStringNeedsNoKeyInTheBatch) {
  Toy toy = start_toy("table_stories", {{"stop_strings", {"ld"}}});
  const auto batch = run(toy, one_token_each({10}), true);
  EXPECT_THAT(generated(batch, 0), ElementsAre(11, 12, 13));
}

TEST(ContractGenerate, T8_ABannedWordIsNeverDrawn) {
  Toy free = start_toy("table_stories");
  EXPECT_EQ(generated(run(free, one_token_each({55}), true), 0)[0], 56);
  Toy toy = start_toy("table_stories", {{"bad_words", {"London"}}});
  EXPECT_EQ(generated(run(toy, one_token_each({55}), true), 0)[0], 58);
  Prompts prompts = one_token_each(Ids(64, 55));
  for (int64_t seed = 0; seed < 64; ++seed) prompts.seeds.push_back(seed);
  const auto batch = run(toy, prompts, false);
  for (size_t row = 0; row < 64; ++row) {
    for (const int64_t token : generated(batch, row)) {
      EXPECT_TRUE(token != 56 && token != 57) << "row " << row;
    }
  }
}

TEST(ContractGenerate, T9_IgnoreEosGoesOnToTheLimit) {
  Toy plain = start_toy("table_eager_eos");
  const auto stopped = run(plain, one_token_each({3}), true);
  EXPECT_THAT(generated(stopped, 0), ElementsAre(2));
  EXPECT_FALSE(stopped.truncated.as<bool>()[0]);
  Toy toy = start_toy("table_eager_eos", {{"ignore_eos", true}});
  const auto batch = run(toy, one_token_each({3}), true);
  EXPECT_THAT(generated(batch, 0), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_TRUE(batch.truncated.as<bool>()[0]);
}

TEST(ContractGenerate, T10_TheContextEndsARowTruncatedUnlessNothingFitted) {
  Toy toy =
      start_toy("table_prefers_six", {{"rlgen_cfg", {{"num_threads", 1}, {"max_model_len", 16}}}});
  const auto row_of = [](int64_t length) {
    Prompts prompts{
        HostTensor(DType::kInt64, Shape{1, length}), HostTensor::of(Ids{length}), {}, {}};
    EXPECT_TRUE(write_integers(Ids(static_cast<size_t>(length), 6), &prompts.ids).ok());
    return prompts;
  };
  const auto cut = run(toy, row_of(14), true);
  EXPECT_EQ(cut.generation_lengths.as<int64_t>()[0], 2);
  EXPECT_TRUE(cut.truncated.as<bool>()[0]);
  const auto full = run(toy, row_of(16), true);
  EXPECT_EQ(full.generation_lengths.as<int64_t>()[0], 0);
  EXPECT_FALSE(full.truncated.as<bool>()[0]);
  EXPECT_TRUE(full.context_full.as<bool>()[0]);
}

// Log-probabilities of the logits 2, 1, 0, -1 at a temperature, over the first `kept` of them.
float known_logprob(int64_t token, double temperature, int kept) {
  double sum = 0.0;
  for (int i = 0; i < kept; ++i) sum += std::exp((2.0 - i) / temperature);
  return static_cast<float>((2.0 - static_cast<double>(token)) / temperature - std::log(sum));
}

TEST(ContractGenerate, T11_TheLogprobIsOfTheDrawnTokenInItsMode) {
  struct Case {
    const char* mode;
    double temperature;
    int kept;
  };
  for (const Case& c : {Case{"processed", 2.0, 2}, Case{"raw", 1.0, 4}, Case{"tempered", 2.0, 4}}) {
    Toy toy = start_toy("table_descending",
                        {{"temperature", 2.0},
                         {"top_k", 2},
                         {"rlgen_cfg", {{"num_threads", 1}, {"logprobs_mode", c.mode}}}});
    const auto batch = run(toy, one_token_each(Ids(16, 0)), false);
    EXPECT_EQ(batch.logprobs_mode, c.mode);
    bool second = false;
    for (int64_t row = 0; row < 16; ++row) {
      const Ids tokens = generated(batch, static_cast<size_t>(row));
      for (size_t i = 0; i < tokens.size(); ++i) {
        ASSERT_LT(tokens[i], 2);
        second = second || tokens[i] == 1;
        const float known = known_logprob(tokens[i], c.temperature, c.kept);
        // Two float32 roundings of a value below 4.
        EXPECT_NEAR(logprob_at(batch, row, static_cast<int64_t>(i) + 1), known, 4.0f * 0x1p-23f)
            << c.mode;
      }
    }
    EXPECT_TRUE(second) << "no token but the likeliest was drawn";
    EXPECT_NEAR(std::exp(known_logprob(0, 2.0, 2)) + std::exp(known_logprob(1, 2.0, 2)), 1.0, 1e-6);
  }
}

TEST(ContractGenerate, T12_GreedyIsTheLikeliestPathEachTime) {
  Toy toy = start_toy("table_chain", {{"temperature", 0.7}, {"top_k", 3}});
  const auto first = run(toy, one_token_each({3, 3}), true);
  EXPECT_THAT(generated(first, 0), ElementsAre(4, 5, 6, 2));
  const auto again = run(toy, one_token_each({3, 3}), true);
  EXPECT_EQ(*read_integers(first.output_ids.view()), *read_integers(again.output_ids.view()));
  for (int64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(logprob_at(first, 0, i), logprob_at(again, 1, i));
    EXPECT_LT(logprob_at(first, 0, i), 0.0f);
  }
}

TEST(ContractGenerate, EqualSeedsAreEqualRowsOnAnyNumberOfShards) {
  const json three{
      {"colocated", {{"enabled", false}, {"resources", {{"gpus_per_node", 3}, {"num_nodes", 1}}}}}};
  Toy one = start_toy("table_descending");
  Toy many = start_toy("table_descending", three);
  Prompts prompts = one_token_each(Ids(9, 0));
  prompts.seeds = {5, 6, 7, 8, 9, 10, 11, 12, 5};
  const auto a = run(one, prompts, false);
  const auto b = run(many, prompts, false);
  EXPECT_EQ(*read_integers(a.output_ids.view()), *read_integers(b.output_ids.view()));
  EXPECT_EQ(generated(a, 0), generated(a, 8));
}

}  // namespace
}  // namespace rlgen
