#include "models/rotary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace rlgen::models {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const json kNothing = json::object();

struct Read {
  RotaryParameters parameters;
  Status status;
};

Read read(const json& config, RotaryShape shape = {128, 8192}) {
  ConfigReader reader(config, "config.json");
  RotaryParameters parameters = read_rotary(reader, shape);
  return {parameters, reader.finish("test")};
}

RotaryParameters accepted_rotary(const json& config, RotaryShape shape = {128, 8192}) {
  Read result = read(config, shape);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return result.parameters;
}

std::string rotary_fault(const json& config, RotaryShape shape = {128, 8192}) {
  const Read result = read(config, shape);
  return result.status.ok() ? "accepted" : message_of(result.status);
}

std::vector<float> frequencies(const json& config, int32_t context = 8192,
                               RotaryShape shape = {128, 8192}) {
  return resolve_rotary(accepted_rotary(config, shape), context).inv_freq;
}

TEST(Rotary, DefaultFrequencies) {
  const RotarySpec spec = resolve_rotary(accepted_rotary({{"rope_theta", 10000.0}}, {4, 64}), 64);
  ASSERT_EQ(spec.inv_freq.size(), 2u);
  EXPECT_EQ(spec.inv_freq[0], 1.0f);
  EXPECT_EQ(spec.inv_freq[1], 0.01f);
  EXPECT_EQ(spec.attention_factor, 1.0f);
  EXPECT_EQ(spec.name, "default");
}

TEST(Rotary, ThetaStandsOutsideInsideOrAtItsDefault) {
  EXPECT_EQ(accepted_rotary(kNothing).theta, 10000.0);
  EXPECT_EQ(accepted_rotary(kNothing, {128, 64, 5.0}).theta, 5.0);
  EXPECT_EQ(accepted_rotary({{"rope_theta", 7.0}}).theta, 7.0);
  EXPECT_EQ(accepted_rotary({{"rope_parameters", {{"rope_theta", 8.0}}}}).theta, 8.0);
  EXPECT_EQ(accepted_rotary({{"rope_theta", 8}, {"rope_parameters", {{"rope_theta", 8.0}}}}).theta,
            8.0);
  EXPECT_THAT(rotary_fault({{"rope_theta", 7.0}, {"rope_parameters", {{"rope_theta", 8.0}}}}),
              HasSubstr("rope_parameters.rope_theta is 8.0, but rope_theta is 7.0"));
}

TEST(Rotary, FB153_TypeAndRopeTypeAreOneKey) {
  const json older = {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}};
  const json newer = {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}};
  EXPECT_EQ(frequencies(older), frequencies(newer));
  EXPECT_EQ(frequencies(older)[0], 0.5f);
  EXPECT_EQ(rotary_fault(
                {{"rope_scaling", {{"rope_type", "linear"}, {"type", "linear"}, {"factor", 2}}}}),
            "accepted");
  EXPECT_THAT(
      rotary_fault(
          {{"rope_scaling", {{"rope_type", "linear"}, {"type", "dynamic"}, {"factor", 2}}}}),
      HasSubstr("rope_scaling.rope_type is \"linear\", but rope_scaling.type is \"dynamic\""));
}

TEST(Rotary, TwoSectionsMustBeEqual) {
  const json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  const json other = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(rotary_fault({{"rope_scaling", linear}, {"rope_parameters", linear}}), "accepted");
  EXPECT_THAT(rotary_fault({{"rope_scaling", linear}, {"rope_parameters", other}}),
              HasSubstr("keep one of them"));
  EXPECT_EQ(rotary_fault({{"rope_scaling", nullptr}, {"rope_parameters", linear}}), "accepted");
}

TEST(Rotary, FB155_Llama3BlendsByWavelength) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  const RotaryShape shape{128, 131072};
  const auto scaled =
      frequencies({{"rope_theta", 500000.0}, {"rope_scaling", scaling}}, 131072, shape);
  const auto plain = frequencies({{"rope_theta", 500000.0}}, 131072, shape);
  for (size_t i = 0; i <= 28; ++i) EXPECT_EQ(scaled[i], plain[i]) << i;
  EXPECT_NEAR(scaled[29] / plain[29], 0.82817, 1e-5);
  EXPECT_NEAR(scaled[30] / plain[30], 0.64374, 1e-5);
  EXPECT_NEAR(scaled[31] / plain[31], 0.49351, 1e-5);
  for (size_t i = 35; i < 64; ++i) EXPECT_EQ(scaled[i], plain[i] / 8.0f) << i;
}

json yarn(double factor, json more = json::object()) {
  json section = {{"rope_type", "yarn"}, {"factor", factor}};
  section.update(more);
  return {{"rope_scaling", section}};
}

TEST(Rotary, FB157_YarnFactorIsTheRatioOfBothMscales) {
  const auto factor = [](const json& config) {
    return resolve_rotary(accepted_rotary(config), 8192).attention_factor;
  };
  EXPECT_EQ(factor(yarn(40, {{"mscale", 0.707}, {"mscale_all_dim", 0.707}})), 1.0f);
  EXPECT_NEAR(factor(yarn(40, {{"mscale", 1.0}, {"mscale_all_dim", 0}})), 1.368888, 1e-6);
  EXPECT_NEAR(factor(yarn(40)), 1.368888, 1e-6);
  EXPECT_EQ(factor(yarn(40, {{"attention_factor", 0.5}})), 0.5f);
  EXPECT_EQ(factor(yarn(1)), 1.0f);
}

TEST(Rotary, YarnKeepsFastPairsAndStretchesSlowOnes) {
  const json section = {{"original_max_position_embeddings", 2048}};
  const auto scaled = frequencies(yarn(4, section));
  const auto plain = frequencies(kNothing);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[63], plain[63] / 4.0f);
  EXPECT_EQ(longest_context(accepted_rotary(yarn(4, section))), 8192);
  EXPECT_EQ(longest_context(accepted_rotary(yarn(8, section))), 16384);
}

TEST(Rotary, FB160_LongropeChoosesByTheContextInForce) {
  std::vector<double> short_factor(64, 1.0), long_factor(64, 2.0);
  const json config = {{"rope_scaling",
                        {{"rope_type", "longrope"},
                         {"original_max_position_embeddings", 4096},
                         {"short_factor", short_factor},
                         {"long_factor", long_factor}}}};
  const RotaryShape shape{128, 131072};
  const auto plain = frequencies(kNothing, 4096, shape);
  EXPECT_EQ(frequencies(config, 4096, shape), plain);
  const auto stretched = frequencies(config, 4097, shape);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(stretched[i], plain[i] / 2.0f);
  const RotaryParameters parameters = accepted_rotary(config, shape);
  EXPECT_EQ(parameters.factor, 32.0);
  EXPECT_NEAR(resolve_rotary(parameters, 1).attention_factor, 1.1902380714, 1e-7);
  EXPECT_EQ(rotary_name(parameters, 4097), "longrope@4097");
}

TEST(Rotary, LongropeChecksItsLists) {
  const auto config = [](json short_factor) {
    return json{{"rope_scaling",
                 {{"rope_type", "longrope"},
                  {"short_factor", std::move(short_factor)},
                  {"long_factor", {1.0, 1.0}}}}};
  };
  EXPECT_EQ(rotary_fault(config({1.0, 2.0}), {4, 64}), "accepted");
  EXPECT_THAT(rotary_fault(config({1.0}), {4, 64}),
              HasSubstr("short_factor is [1.0], expected 2 numbers"));
  EXPECT_THAT(rotary_fault(config({1.0, 0.0}), {4, 64}), HasSubstr("short_factor[1] is 0.0"));
  EXPECT_THAT(rotary_fault(config("x"), {4, 64}), HasSubstr("expected a list of numbers"));
}

TEST(Rotary, FB161_DynamicBaseFollowsTheContextInForce) {
  const json config = {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}};
  const RotaryShape shape{128, 2048};
  const auto base = [&](int32_t context) {
    const float slowest = frequencies(config, context, shape)[32];
    return 1.0 / (double(slowest) * double(slowest));  // pair 32 of 64 turns at 1 / sqrt(base)
  };
  EXPECT_EQ(frequencies(config, 1, shape), frequencies(kNothing, 2048, shape));
  EXPECT_EQ(frequencies(config, 2048, shape), frequencies(kNothing, 2048, shape));
  EXPECT_NEAR(base(4096), 30527.74, 0.01);
  EXPECT_NEAR(base(8192), 72195.86, 0.02);
  EXPECT_EQ(rotary_name(accepted_rotary(config, shape), 8192), "dynamic@8192");
}

// Of DeepSeek's heads of 192 elements.
TEST(Rotary, FB156_YarnScoresHaveAFactorOfTheirOwn) {
  const auto factor = [](const json& more) {
    return yarn_score_factor(accepted_rotary(yarn(40, more)));
  };
  EXPECT_NEAR(factor({{"mscale_all_dim", 0.707}}), 1.589626, 1e-6);
  EXPECT_NEAR(factor({{"mscale_all_dim", 0.707}}) / std::sqrt(192.0), 0.114721, 1e-6);
  EXPECT_NEAR(factor({{"mscale_all_dim", 1.0}}), 1.873854, 1e-6);
  EXPECT_NEAR(factor({{"mscale_all_dim", 1.0}}) / std::sqrt(192.0), 0.135234, 1e-6);
  EXPECT_EQ(factor({{"mscale", 0.707}}), 1.0);
  EXPECT_EQ(factor({{"mscale_all_dim", 0.0}}), 1.0);
  EXPECT_EQ(yarn_score_factor(accepted_rotary(kNothing)), 1.0);
}

TEST(Rotary, OriginalContextOutsideTheSection) {
  const json inside = yarn(4, {{"original_max_position_embeddings", 1024}});
  json outside = yarn(4);
  outside["original_max_position_embeddings"] = 1024;
  EXPECT_EQ(frequencies(inside), frequencies(outside));
  json both = inside;
  both["original_max_position_embeddings"] = 2048;
  EXPECT_THAT(rotary_fault(both), HasSubstr("but original_max_position_embeddings is 2048"));
}

TEST(Rotary, RefusesWhatItCannotDo) {
  const auto section = [](json content) { return json{{"rope_scaling", std::move(content)}}; };
  EXPECT_THAT(rotary_fault(section({{"type", "su"}})),
              HasSubstr("rope_scaling.rope_type is \"su\""));
  EXPECT_THAT(rotary_fault(section({{"type", "linear"}})),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(rotary_fault(section({{"type", "linear"}, {"factor", 0.5}})),
              HasSubstr("factor is 0.5"));
  EXPECT_THAT(rotary_fault(section({{"type", "linear"}, {"factor", "2"}})),
              HasSubstr("factor is \"2\""));
  EXPECT_THAT(rotary_fault(section({{"type", "linear"}, {"factor", 2}, {"facter", 3}})),
              HasSubstr("rope_scaling.facter is 3"));
  EXPECT_THAT(rotary_fault(section({{"full_attention", json::object()}})),
              HasSubstr("rope_scaling.full_attention"));
  EXPECT_THAT(rotary_fault(section("linear")), HasSubstr("expected an object"));
  EXPECT_THAT(rotary_fault({{"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor is 0.5"));
  EXPECT_THAT(rotary_fault(kNothing, {15, 64}), HasSubstr("head_dim is 15"));
  EXPECT_THAT(rotary_fault({{"rope_theta", -1}}), HasSubstr("rope_theta is -1"));
  EXPECT_THAT(rotary_fault({{"rope_theta", 1e30}}), HasSubstr("rope_theta is 1e+30"));
  EXPECT_THAT(rotary_fault(yarn(2, {{"original_max_position_embeddings", 1}})),
              HasSubstr("original_max_position_embeddings is 1, expected an integer from 2"));
  EXPECT_THAT(
      rotary_fault(section(
          {{"type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 4096}})),
      HasSubstr("max_position_embeddings, which is 8192"));
  EXPECT_THAT(rotary_fault(section({{"rope_type", "llama3"},
                                    {"factor", 2},
                                    {"low_freq_factor", 4},
                                    {"high_freq_factor", 4}})),
              HasSubstr("more than low_freq_factor"));
  EXPECT_THAT(rotary_fault(yarn(2, {{"beta_fast", 1}, {"beta_slow", 2}})),
              HasSubstr("beta_fast is 1"));
}

}  // namespace
}  // namespace rlgen::models
