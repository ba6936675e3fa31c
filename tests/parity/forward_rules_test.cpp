#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/json_document.h"
#include "models/registry.h"
#include "parity/checkpoint_runner.h"

// Field reports about tensors that nobody read and windows that were a key too wide, on the tiny
// checkpoints.
namespace rlgen::parity {
namespace {

constexpr int64_t kFewTokens = 20;

RunOptions fastest() { return {.isa = kernels::available_isas().back()}; }

std::vector<float> logits_of(const LoadedModel& model, const std::vector<int32_t>& tokens,
                             const std::vector<int32_t>& routes = {}) {
  SequenceRun run(model, 1, int32_t(tokens.size()), fastest());
  run.give_routes(routes);
  return run.feed(0, tokens);
}

// Routes by which each row goes through the experts after those of the row before it; none for a
// dense model.
std::vector<int32_t> taking_turns(const LoadedModel& model, int64_t rows) {
  const models::RouteAxis axis = models::route_axis(model.decoder.spec);
  std::vector<int32_t> routes;
  for (int64_t i = 0; i < rows * axis.layers * axis.top_k; ++i) {
    const int64_t row = i / (axis.layers * axis.top_k);
    routes.push_back(int32_t((row * axis.top_k + i % axis.top_k) % axis.experts));
  }
  return routes;
}

bool row_equal(const LoadedModel& model, const std::vector<float>& a, const std::vector<float>& b,
               int64_t row) {
  return std::ranges::equal(logits_row(a, model, row), logits_row(b, model, row));
}

LoadedModel load(const std::string& name) {
  auto model = load_model(checkpoint_folder(name), 0);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

// The model of a fixture under a changed configuration that has the same tensors.
LoadedModel reconfigured(const std::string& name, const nlohmann::json& changes) {
  LoadedModel model = load(name);
  auto config = *models::read_json_file(checkpoint_folder(name) + "/config.json");
  config.update(changes);
  const auto resolved = models::resolve_config(config, "config.json", 0);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  model.decoder = models::make_decoder(resolved->spec, model.decoder.table);
  return model;
}

// FB-163 and FB-164: biases that lie in the file and are never read. So: every tensor of every
// checkpoint changes the logits when it is zeroed. Experts take turns, so that each has a token,
// but where a tensor only has a say in which they are.
TEST(ForwardRules, FB163_FB164_EveryTensorMatters) {
  for (const std::string& name : tiny_checkpoints()) {
    const LoadedModel model = load(name);
    const std::vector<int32_t> tokens = some_tokens(model, kFewTokens, 3);
    const std::vector<int32_t> routes = taking_turns(model, kFewTokens);
    const std::vector<float> expected = logits_of(model, tokens, routes);
    const std::vector<float> as_chosen = logits_of(model, tokens);
    for (const models::WeightEntry& entry : model.decoder.table->entries) {
      if (entry.optional) continue;
      const LoadedModel zeroed = with_zeroed(model, entry);
      if (entry.name.ends_with("e_score_correction_bias")) {
        EXPECT_EQ(logits_of(zeroed, tokens, routes), expected) << name << ": " << entry.name;
        EXPECT_NE(logits_of(zeroed, tokens), as_chosen) << name << ": " << entry.name;
      } else {
        EXPECT_NE(logits_of(zeroed, tokens, routes), expected) << name << ": " << entry.name;
      }
    }
  }
}

TEST(ForwardRules, FB164_AllSevenBiasesAreThere) {
  const LoadedModel model = load("llama_bias");
  int biases = 0;
  for (const models::WeightEntry& entry : model.decoder.table->entries) {
    biases += entry.name.ends_with(".bias");
  }
  EXPECT_EQ(biases, 7 * model.decoder.spec.layers);
}

TEST(ForwardRules, FB165_WindowThatIsSwitchedOffDoesNothing) {
  const nlohmann::json window = {{"sliding_window", 8}, {"max_window_layers", 0}};
  nlohmann::json off = window, on = window, none = window;
  off["use_sliding_window"] = false;
  on["use_sliding_window"] = true;
  none["sliding_window"] = nullptr;
  const LoadedModel full = reconfigured("qwen2", none);
  const std::vector<int32_t> tokens = some_tokens(full, 16, 4);
  const std::vector<float> expected = logits_of(full, tokens);
  EXPECT_EQ(logits_of(reconfigured("qwen2", off), tokens), expected);
  const std::vector<float> windowed = logits_of(reconfigured("qwen2", on), tokens);
  for (int64_t row = 0; row < 16; ++row) {
    EXPECT_EQ(row_equal(full, windowed, expected, row), row < 8) << row;
  }
}

// One layer, so that a key outside the window cannot reach the row by way of another row.
LoadedModel one_layer_with_window(int32_t window) {
  LoadedModel model = load("llama");
  models::DecoderSpec spec = model.decoder.spec;
  spec.layers = 1;
  spec.layer.resize(1);
  spec.layer[0].window = window;
  model.decoder = models::make_decoder(std::move(spec), model.decoder.table);
  return model;
}

TEST(ForwardRules, FB167_WindowOfFourIsFourKeys) {
  const LoadedModel model = one_layer_with_window(4);
  const std::vector<int32_t> tokens = some_tokens(model, 11, 5);
  for (const int64_t chunk : {11, 3, 1}) {
    const auto last_row = [&](const std::vector<int32_t>& ids) {
      SequenceRun run(model, 1, 16, fastest());
      std::vector<float> logits;
      for (int64_t begin = 0; begin < 11; begin += chunk) {
        const int64_t end = std::min<int64_t>(begin + chunk, 11);
        logits = run.feed(0, {ids.begin() + begin, ids.begin() + end});
        if (end < 11) continue;
        const auto row = logits_row(logits, model, end - begin - 1);
        return std::vector<float>(row.begin(), row.end());
      }
      return logits;
    };
    const std::vector<float> expected = last_row(tokens);
    for (size_t position = 0; position < 11; ++position) {
      std::vector<int32_t> changed = tokens;
      changed[position] = (changed[position] + 1) % model.decoder.spec.vocab_rows;
      EXPECT_EQ(last_row(changed) != expected, position >= 7)
          << "position " << position << ", chunks of " << chunk;
    }
  }
}

// How far the log-probabilities of a model are from those of another for the same tokens, from
// position `first` on.
double furthest(const LoadedModel& a, const LoadedModel& b, const std::vector<int32_t>& tokens,
                int64_t first) {
  const std::vector<float> left = logits_of(a, tokens);
  const std::vector<float> right = logits_of(b, tokens);
  const int64_t limit = a.decoder.spec.vocab_rows;
  double most = 0.0;
  for (int64_t row = first; row + 1 < int64_t(tokens.size()); ++row) {
    const int32_t next = tokens[size_t(row) + 1];
    most = std::max(most, std::abs(logprob(logits_row(left, a, row), limit, next) -
                                   logprob(logits_row(right, b, row), limit, next)));
  }
  return most;
}

// FB-156: of yarn's two corrections that of the scores is a factor on all of them. Without it the
// first position, which sees one key, is the same, later ones are far off (ForwardParity compares
// the right ones with Transformers).
TEST(ForwardRules, FB156_YarnScalesTheScoresToo) {
  for (const std::string name : {"deepseek_v2", "deepseek_v3"}) {
    const LoadedModel model = load(name);
    const std::vector<int32_t> tokens = some_tokens(model, 40, 6);
    LoadedModel uncorrected = model;
    models::DecoderSpec spec = model.decoder.spec;
    spec.attention_scale = float(1.0 / std::sqrt(double(spec.latent.plain + spec.latent.rotated)));
    EXPECT_GT(model.decoder.spec.attention_scale, spec.attention_scale * 1.2f);
    uncorrected.decoder = models::make_decoder(std::move(spec), model.decoder.table);
    EXPECT_TRUE(row_equal(model, logits_of(model, tokens), logits_of(uncorrected, tokens), 0));
    EXPECT_GT(furthest(model, uncorrected, tokens, 16), 0.05) << name;
  }
}

// FB-159: the rotated elements of a head come in neighbouring pairs. Taken as halves, everything
// but the first position is off.
TEST(ForwardRules, FB159_RotaryPairsAreNeighbours) {
  for (const std::string name : {"deepseek_v2", "deepseek_v3"}) {
    const LoadedModel model = load(name);
    const std::vector<int32_t> tokens = some_tokens(model, 16, 7);
    const LoadedModel halves = [&] {
      LoadedModel changed = model;
      models::DecoderSpec spec = model.decoder.spec;
      EXPECT_TRUE(spec.latent.interleaved);
      spec.latent.interleaved = false;
      changed.decoder = models::make_decoder(std::move(spec), model.decoder.table);
      return changed;
    }();
    EXPECT_GT(furthest(model, halves, tokens, 1), 0.01) << name;
  }
}

TEST(ForwardRules, LayersWithoutRotaryEmbeddingIgnorePositions) {
  LoadedModel model = load("smollm3");
  models::DecoderSpec spec = model.decoder.spec;
  for (models::LayerSpec& layer : spec.layer) layer.rotary = false;
  model.decoder = models::make_decoder(std::move(spec), model.decoder.table);
  // Without positions, equal tokens make equal rows, wherever they stand.
  const std::vector<float> logits = logits_of(model, {9, 9, 9});
  const LoadedModel rotary = load("smollm3");
  EXPECT_EQ(row_equal(rotary, logits, logits_of(rotary, {9, 9, 9}), 0), true);
  const auto first = logits_row(logits, model, 0);
  const auto third = logits_row(logits, model, 2);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], third[i], 1e-4);
}

}  // namespace
}  // namespace rlgen::parity
