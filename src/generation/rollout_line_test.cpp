#include "generation/rollout_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "contract/routes/routed_experts.h"
#include "generation/error_code.h"
#include "generation/json_line.h"

namespace rlgen::generation {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Rollout example() {
  Rollout rollout;
  rollout.id = "a\"b";
  rollout.sample = 2;
  rollout.prompt_token_ids = {1, 2};
  rollout.tokens = {{.token = 5, .logprob = -0.1f, .version = 3, .oldest_kv = 3},
                    {.token = 6, .logprob = -3.0f, .version = 4, .oldest_kv = 3}};
  rollout.text = "hé\n";
  rollout.finish = {.reason = FinishReason::kStop, .stop_reason = 6};
  rollout.sampling.seed = 99;
  rollout.sampling.temperature = 0.7f;
  rollout.numerics = "float32/r1";
  return rollout;
}

json written(const Rollout& rollout) {
  const auto line = write_rollout_line(rollout, {.seed = 11});
  EXPECT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->find('\n'), std::string::npos);
  return json::parse(*line);
}

TEST(RolloutLine, HasEveryField) {
  const json line = written(example());
  EXPECT_EQ(line["schema"], 1);
  EXPECT_EQ(line["id"], "a\"b");
  EXPECT_EQ(line["sample"], 2);
  EXPECT_EQ(line["prompt_token_ids"], json({1, 2}));
  EXPECT_EQ(line["token_ids"], json({5, 6}));
  EXPECT_EQ(line["logprobs"].dump(), "[-0.1,-3.0]");
  EXPECT_EQ(line["logprobs_mode"], "processed");
  EXPECT_EQ(line["text"], "hé\n");
  EXPECT_EQ(line["finish_reason"], "stop");
  EXPECT_EQ(line["stop_reason"], 6);
  EXPECT_EQ(line["truncated"], false);
  EXPECT_EQ(line["seed"], 99);
  EXPECT_EQ(line["run_seed"], 11);
  EXPECT_EQ(line["weight_version"], 3);
  EXPECT_EQ(line["weight_versions"].size(), 2u);
  EXPECT_EQ(line["weight_versions"][1]["version"], 4);
  EXPECT_EQ(line["sampling"]["temperature"].dump(), "0.7");
  EXPECT_EQ(line["numerics"], "float32/r1");
  EXPECT_FALSE(line.contains("error"));
  EXPECT_FALSE(line.contains("top_logprobs"));
  EXPECT_FALSE(line.contains("prompt_logprobs"));
}

TEST(RolloutLine, WithoutATokenizerThereIsNoText) {
  const auto line = write_rollout_line(example(), {.seed = 1, .has_text = false});
  EXPECT_EQ(json::parse(*line)["text"], nullptr);
}

TEST(RolloutLine, FB203_SideValuesAsAskedFor) {
  Rollout rollout = example();
  rollout.sampling.logprobs = 2;
  rollout.sampling.prompt_logprobs = 1;
  rollout.tokens[0].top = {{5, -0.1f}, {9, -2.5f}};
  rollout.prompt = {{.token = 2, .logprob = -1.5f, .top = {{7, -0.5f}}}};
  const json line = written(rollout);
  EXPECT_EQ(line["top_logprobs"].dump(), "[[[5,-0.1],[9,-2.5]],[]]");
  EXPECT_EQ(line["prompt_logprobs"].dump(), "[null,-1.5]");
  EXPECT_EQ(line["prompt_top_logprobs"].dump(), "[null,[[7,-0.5]]]");
  rollout.sampling.prompt_logprobs = 0;
  rollout.prompt.clear();
  EXPECT_EQ(written(rollout)["prompt_logprobs"].dump(), "[null]");
  EXPECT_FALSE(written(rollout).contains("prompt_top_logprobs"));
}

TEST(RolloutLine, FB008_NoLineWithoutALogprob) {
  Rollout rollout = example();
  rollout.tokens[1].logprob = std::numeric_limits<float>::quiet_NaN();
  const auto line = write_rollout_line(rollout, {});
  EXPECT_THAT(message_of(line.status()), HasSubstr("token 1"));
  rollout = example();
  rollout.prompt = {{.token = 2, .logprob = -std::numeric_limits<float>::infinity()}};
  EXPECT_THAT(message_of(write_rollout_line(rollout, {}).status()), HasSubstr("prompt position 1"));
}

TEST(RolloutLine, ErrorsHaveACodeAndAMessage) {
  Rollout rollout = example();
  rollout.tokens.clear();
  rollout.finish = {.reason = FinishReason::kError, .error = context_length_exceeded(273, 256)};
  const json line = written(rollout);
  EXPECT_EQ(line["finish_reason"], "error");
  EXPECT_EQ(line["weight_version"], nullptr);
  EXPECT_EQ(line["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(line["error"]["message"].get<std::string>(), HasSubstr("273"));
}

TEST(RolloutLine, StoredLineReadsBack) {
  const auto line = read_stored_line(*write_rollout_line(example(), {.seed = 11}));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->id, "a\"b");
  EXPECT_EQ(line->sample, 2);
  EXPECT_EQ(line->run_seed, 11);
  EXPECT_FALSE(line->failed);
  EXPECT_EQ(line->prompt_token_ids, example().prompt_token_ids);
  EXPECT_EQ(line->sampling, example().sampling);
  EXPECT_EQ(line->numerics, "float32/r1");
  EXPECT_EQ(line->tokens, 2);
}

TEST(RolloutLine, StoredFailedPromptReadsBack) {
  const auto line = read_stored_line(write_failed_prompt(
      {.id = "x", .input_line = 4, .error = absl::InvalidArgumentError("no")}, {.seed = 11}));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->failed);
  EXPECT_FALSE(line->sample.has_value());
  EXPECT_EQ(line->input_line, 4);
}

TEST(RolloutLine, StrangeLinesAreDataLoss) {
  const auto error_of = [](std::string_view text) {
    const auto line = read_stored_line(text);
    EXPECT_EQ(line.status().code(), absl::StatusCode::kDataLoss);
    return message_of(line.status());
  };
  EXPECT_THAT(error_of("{}"), HasSubstr("schema"));
  EXPECT_THAT(error_of("{\"schema\":2}"), HasSubstr("schema is 2"));
  EXPECT_THAT(error_of("nonsense"), HasSubstr("no JSON"));
  json line = written(example());
  line["logprobs"] = json::array({-1.0});
  EXPECT_THAT(error_of(line.dump()), HasSubstr("2 numbers"));
}

TEST(RolloutLine, ScoreReadsWhatGenerateWrote) {
  const auto object = parse_json_line(*write_rollout_line(example(), {.seed = 11}));
  const auto line = read_score_line(*object);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(line->sampling, example().sampling);
}

TEST(RolloutLine, ScoreNamesWhatIsMissing) {
  const auto error_of = [](std::string_view text) {
    return message_of(read_score_line(*parse_json_line(text)).status());
  };
  EXPECT_THAT(error_of(R"({"token_ids":[1]})"), HasSubstr("\"prompt_token_ids\" is missing"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[1]})"), HasSubstr("\"token_ids\" is missing"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[1],"token_ids":[2],"sampling":{"topp":1}})"),
              HasSubstr("top_p"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[1],"token_ids":[2],"logprobs_mode":"x"})"),
              HasSubstr("logprobs_mode"));
  for (const std::string sample : {"-1", "2147483647", "4294967296", "1.5", "null"}) {
    EXPECT_THAT(error_of(R"({"prompt_token_ids":[1],"token_ids":[2],"sample":)" + sample + "}"),
                HasSubstr("sample is " + sample));
  }
}

TEST(RolloutLine, ScoredLineKeepsOtherKeysAndTheirOrder) {
  const auto object =
      parse_json_line(R"({"reward":0.25,"logprobs":[0],"prompt_token_ids":[1],"token_ids":[2]})");
  Rollout scored;
  scored.tokens = {{.token = 2, .logprob = -0.5f}};
  scored.sampling.logprobs_mode = LogprobsMode::kRaw;
  scored.numerics = "n";
  const auto text = write_scored_line(*object, scored);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(
      text->find(R"({"reward":0.25,"logprobs":[-0.5],"prompt_token_ids":[1],"token_ids":[2],)"),
      0u);
  const json line = json::parse(*text);
  EXPECT_EQ(line["logprobs_mode"], "raw");
  EXPECT_EQ(line["sampling"]["logprobs_mode"], "raw");
  EXPECT_EQ(line["numerics"], "n");
}

// Two tokens, two layers, the experts (0, 7) and (3, -1 where there is none).
Rollout with_routes() {
  Rollout rollout = example();
  rollout.routes = {.first = 0, .layers = 2, .top_k = 2, .dtype = DType::kInt8, .ids = {}};
  for (const int id : {0, 7, 3, 1, 7, 0, -1, -1}) {
    rollout.routes.ids.push_back(static_cast<std::byte>(id));
  }
  return rollout;
}

TEST(RolloutLine, FB241_RoutesAreOneTextAndListsOnlyOnRequest) {
  EXPECT_FALSE(written(example()).contains("routed_experts"));
  const json line = written(with_routes());
  ASSERT_TRUE(line["routed_experts"].is_string());
  const auto decoded = decode_routed_experts_json(line["routed_experts"]);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(decoded->dtype(), DType::kInt8);
  const auto text = write_rollout_line(with_routes(), {.seed = 1, .routes = RouteFormat::kList});
  EXPECT_EQ(json::parse(*text)["routed_experts"].dump(), "[[[0,7],[3,1]],[[7,0],[-1,-1]]]");
  Rollout none = with_routes();
  none.routes.ids.clear();
  EXPECT_EQ(written(none)["routed_experts"], "nrlre1:int8:0x2x2:");
  const auto empty = write_rollout_line(none, {.seed = 1, .routes = RouteFormat::kList});
  EXPECT_EQ(json::parse(*empty)["routed_experts"].dump(), "[]");
}

TEST(RolloutLine, FB241_AMillionRoutesTakeAsManyBytes) {
  Rollout rollout = example();
  rollout.routes = {.first = 0, .layers = 48, .top_k = 8, .dtype = DType::kInt8, .ids = {}};
  rollout.routes.ids.resize(size_t{48} * 8 * 4096);
  const auto text = write_rollout_line(rollout, {.seed = 1});
  EXPECT_LE(text->size(), rollout.routes.ids.size() * 4 / 3 + 2000);
}

TEST(RolloutLine, GivenRoutesAreNamedByTheirDigest) {
  EXPECT_FALSE(written(example()).contains("given_routed_experts"));
  Rollout rollout = example();
  rollout.given_routes = std::make_shared<const HostTensor>(DType::kInt8, Shape{2, 1, 2});
  const json line = written(rollout);
  EXPECT_EQ(line["given_routed_experts"], given_routes_digest(*rollout.given_routes));
  EXPECT_EQ(read_stored_line(line.dump())->given_routes,
            line["given_routed_experts"].get<std::string>());
  EXPECT_EQ(read_stored_line(written(example()).dump())->given_routes, "");
  json odd = line;
  odd["given_routed_experts"] = 3;
  EXPECT_THAT(message_of(read_stored_line(odd.dump()).status()), HasSubstr("given_routed_experts"));
  // A score without them is not of those routes.
  const auto object = *parse_json_line(line.dump());
  EXPECT_TRUE(json::parse(*write_scored_line(object, rollout)).contains("given_routed_experts"));
  EXPECT_FALSE(json::parse(*write_scored_line(object, example())).contains("given_routed_experts"));
}

TEST(ScoreLine, RoutesAreReadWhereTheyAreWanted) {
  const auto line = write_rollout_line(with_routes(), {.seed = 1});
  auto object = *parse_json_line(*line);
  EXPECT_EQ(read_score_line(object)->routed_experts, nullptr);
  const auto score = read_score_line(object, true);
  ASSERT_TRUE(score.ok()) << score.status();
  EXPECT_EQ(score->routed_experts->shape(), (Shape{2, 2, 2}));
  object["sampling"]["routed_experts_prompt_start"] = 1;
  EXPECT_THAT(message_of(read_score_line(object, true).status()),
              HasSubstr("routed_experts begin with token 1"));
  object.erase("routed_experts");
  EXPECT_THAT(message_of(read_score_line(object, true).status()),
              HasSubstr("\"routed_experts\" is missing"));
  EXPECT_TRUE(read_score_line(object).ok());
}

}  // namespace
}  // namespace rlgen::generation
