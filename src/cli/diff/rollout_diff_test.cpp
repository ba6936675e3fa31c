#include "cli/diff/rollout_diff.h"

#include <gtest/gtest.h>

#include "models/test_files.h"

namespace rlgen::cli {
namespace {

const LineKey kKey{"a", 0};

ComparedLine compared_line(std::vector<int32_t> tokens, std::vector<double> logprobs) {
  ComparedLine line;
  line.prompt_token_ids = {1, 2};
  line.token_ids = std::move(tokens);
  line.logprobs = std::move(logprobs);
  line.circumstances = {{"seed", "5"}, {"numerics", "\"n\""}};
  return line;
}

RolloutComparison compare(const ComparedLine& left, const ComparedLine& right,
                          double tolerance = 0.0) {
  return compare_rollouts({{kKey, left}}, {{kKey, right}}, tolerance);
}

TEST(CompareRollouts, EqualLines) {
  const ComparedLine one = compared_line({7, 8}, {-1.0, -2.0});
  const RolloutComparison comparison = compare(one, one);
  EXPECT_EQ(comparison.equal, 1);
  EXPECT_EQ(comparison.without_logprobs, 0);
  EXPECT_TRUE(comparison.different.empty());
}

TEST(CompareRollouts, FirstTokenAndTheLogprobsBeforeIt) {
  ComparedLine right = compared_line({7, 8, 4, 9}, {-1.0, -2.25, -0.5, -9.0});
  right.circumstances["seed"] = "6";
  const auto comparison = compare(compared_line({7, 8, 3}, {-1.0, -2.0, -3.0}), right);
  ASSERT_EQ(comparison.different.size(), 1);
  const DifferentLine& found = comparison.different[0];
  EXPECT_EQ(found.key, kKey);
  EXPECT_EQ(found.kind, LineDifference::kTokens);
  EXPECT_EQ(found.position, 2);
  EXPECT_EQ(found.left_token, 3);
  EXPECT_EQ(found.right_token, 4);
  EXPECT_EQ(found.largest, 0.25);
  EXPECT_EQ(found.largest_position, 1);
  EXPECT_EQ(found.circumstances, std::vector<std::string>{"seed"});
}

TEST(CompareRollouts, ALineThatIsLonger) {
  const auto comparison = compare(compared_line({7}, {-1.0}), compared_line({7, 8}, {-1.0, -2.0}));
  ASSERT_EQ(comparison.different.size(), 1);
  const DifferentLine& found = comparison.different[0];
  EXPECT_EQ(found.position, 1);
  EXPECT_FALSE(found.left_token);
  EXPECT_EQ(found.right_token, 8);
  EXPECT_EQ(found.largest_position, -1);
}

TEST(CompareRollouts, LogprobsAloneAndTolerance) {
  const ComparedLine left = compared_line({7, 8, 9}, {-1.0, -2.0, -3.0});
  const ComparedLine right = compared_line({7, 8, 9}, {-1.0, -2.125, -3.5});
  const auto found = compare(left, right).different.at(0);
  EXPECT_EQ(found.kind, LineDifference::kLogprobs);
  EXPECT_EQ(found.position, 1);
  EXPECT_EQ(found.largest_position, 2);
  EXPECT_EQ(found.largest, 0.5);
  EXPECT_EQ(compare(left, right, 0.125).different.at(0).position, 2);
  EXPECT_EQ(compare(left, right, 0.5).equal, 1);
}

TEST(CompareRollouts, PromptsErrorsAndLinesOfOneSide) {
  ComparedLine other_prompt = compared_line({7}, {-1.0});
  other_prompt.prompt_token_ids = {1, 3};
  const auto prompt = compare(compared_line({7}, {-1.0}), other_prompt).different.at(0);
  EXPECT_EQ(prompt.kind, LineDifference::kPrompt);
  EXPECT_EQ(prompt.position, 1);
  ComparedLine failed;
  failed.error = "{}";
  EXPECT_EQ(compare(compared_line({7}, {-1.0}), failed).different.at(0).kind,
            LineDifference::kError);
  EXPECT_EQ(compare(failed, failed).equal, 1);

  const ComparedLine one = compared_line({7}, {-1.0});
  const auto sides = compare_rollouts({{{"a", 0}, one}, {{"c", 0}, one}},
                                      {{{"a", 0}, one}, {{"a", 1}, one}, {{"d", 0}, one}}, 0.0);
  EXPECT_EQ(sides.equal, 1);
  ASSERT_EQ(sides.different.size(), 3);
  EXPECT_EQ(sides.different[0].key, LineKey("a", 1));
  EXPECT_EQ(sides.different[0].kind, LineDifference::kOnlyRight);
  EXPECT_EQ(sides.different[1].key, LineKey("c", 0));
  EXPECT_EQ(sides.different[1].kind, LineDifference::kOnlyLeft);
}

TEST(CompareRollouts, MissingLogprobsAreSaid) {
  ComparedLine without = compared_line({7}, {});
  without.logprobs.reset();
  const auto comparison = compare(without, compared_line({7}, {-1.0}));
  EXPECT_EQ(comparison.equal, 1);
  EXPECT_EQ(comparison.without_logprobs, 1);
}

class RolloutLinesTest : public ::testing::Test {
 protected:
  StatusOr<RolloutLines> read(const std::string& text) {
    folder_.write("a.jsonl", text);
    return read_rollout_lines(folder_.path() + "/a.jsonl");
  }
  void expect_error(const std::string& text, const std::string& part) {
    const Status status = read(text).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(message_of(status).find("a.jsonl line "), std::string::npos) << status;
    EXPECT_NE(message_of(status).find(part), std::string::npos) << status;
  }

  models::test::TempFolder folder_;
};

TEST_F(RolloutLinesTest, ReadsLinesAndFailures) {
  const auto lines = read(
      "{\"id\":\"a\",\"sample\":2,\"prompt_token_ids\":[1],\"token_ids\":[3],\"logprobs\":[-0.5],"
      "\"seed\":9}\n\n"
      "{\"id\":\"b\",\"sample\":null,\"error\":{\"code\":\"x\"}}\n"
      "{\"id\":\"a\",\"sample\":0,\"prompt_token_ids\":[1],\"token_ids\":[],\"error\":null}\n");
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 3);
  const ComparedLine& first = lines->at({"a", 2});
  EXPECT_EQ(first.token_ids, std::vector<int32_t>{3});
  EXPECT_EQ(first.logprobs, std::vector<double>{-0.5});
  EXPECT_EQ(first.circumstances.at("seed"), "9");
  EXPECT_EQ(lines->at({"b", -1}).error, "{\"code\":\"x\"}");
  EXPECT_FALSE(lines->at({"a", 0}).logprobs);
  EXPECT_EQ(lines->at({"a", 0}).error, "");
}

TEST_F(RolloutLinesTest, NamesWhatIsWrong) {
  const std::string good = "{\"id\":\"a\",\"prompt_token_ids\":[1],\"token_ids\":[3]}\n";
  expect_error(good + good, "line 2: id a sample 0 was there before");
  expect_error("{\"id\":\"a\",\"token_ids\":[3]}", "prompt_token_ids");
  expect_error("{\"prompt_token_ids\":[1],\"token_ids\":[3],\"logprobs\":[]}", "logprobs");
  expect_error("{\"prompt_token_ids\":[1],\"token_ids\":[3],\"logprobs\":[null]}", "logprobs");
  expect_error("{\"sample\":1,\"error\":{}}", "id must be");
  expect_error("{\"id\":\"a\",\"sample\":-1,\"error\":{}}", "sample");
  expect_error("[]", "object");
}

}  // namespace
}  // namespace rlgen::cli
