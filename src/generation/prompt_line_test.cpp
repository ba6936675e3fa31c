#include "generation/prompt_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rlgen::generation {
namespace {

using testing::HasSubstr;

StatusOr<PromptLine> parse(std::string_view text) { return parse_prompt_line(text, 7, {}); }

std::string error_of(std::string_view text) {
  const auto line = parse(text);
  EXPECT_FALSE(line.ok()) << text;
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return message_of(line.status());
}

TEST(PromptLine, Text) {
  const auto line = parse(R"({"prompt":"Once","temperature":0.5,"n":2})");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->id, "7");
  EXPECT_EQ(std::get<TextPrompt>(line->prompt).text, "Once");
  EXPECT_EQ(line->sampling.temperature, 0.5f);
  EXPECT_EQ(line->sampling.n, 2);
}

TEST(PromptLine, ChatKeepsTheOrderOfKeys) {
  const auto line = parse(
      R"({"id":"c","messages":[{"role":"user","content":"hi","a":1}],"tools":[{"z":1,"a":2}],)"
      R"("chat_template_kwargs":{"enable_thinking":false}})");
  ASSERT_TRUE(line.ok()) << line.status();
  const auto& chat = std::get<ChatPrompt>(line->prompt);
  EXPECT_EQ(chat.messages, R"([{"role":"user","content":"hi","a":1}])");
  EXPECT_EQ(chat.tools, R"([{"z":1,"a":2}])");
  EXPECT_EQ(chat.template_kwargs, R"({"enable_thinking":false})");
}

TEST(PromptLine, TokenIdsAndDefaults) {
  const auto line = parse_prompt_line(R"({"prompt_token_ids":[0,5]})", 0, {.top_p = 0.5f});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(std::get<TokenPrompt>(line->prompt), (TokenPrompt{0, 5}));
  EXPECT_EQ(line->sampling.top_p, 0.5f);
}

TEST(PromptLine, IdsBecomeText) {
  EXPECT_EQ(parse(R"({"prompt":"x","id":12})")->id, "12");
  EXPECT_EQ(parse(R"({"prompt":"x","id":"a b"})")->id, "a b");
  EXPECT_THAT(error_of(R"({"prompt":"x","id":1.5})"), HasSubstr("id is 1.5"));
  EXPECT_THAT(error_of(R"({"prompt":"x","id":""})"), HasSubstr("id is \"\""));
  EXPECT_THAT(error_of(R"({"prompt":"x","id":null})"), HasSubstr("id is null"));
}

TEST(PromptLine, ExactlyOnePrompt) {
  EXPECT_THAT(error_of(R"({"id":"x"})"), HasSubstr("no prompt"));
  EXPECT_THAT(error_of(R"({"prompt":"x","prompt_token_ids":[1]})"),
              HasSubstr("prompt and prompt_token_ids"));
  EXPECT_THAT(error_of(R"({"prompt":"x","tools":[]})"), HasSubstr("tools belongs to messages"));
}

TEST(PromptLine, FB044_EmptyPrompts) {
  EXPECT_THAT(error_of(R"({"prompt":""})"), HasSubstr("prompt is empty"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[]})"), HasSubstr("prompt_token_ids is empty"));
  EXPECT_THAT(error_of(R"({"messages":[]})"), HasSubstr("messages is empty"));
}

TEST(PromptLine, BadValuesAreNamed) {
  EXPECT_THAT(error_of(R"({"prompt":"x","max_tokens":0})"), HasSubstr("max_tokens is 0"));
  EXPECT_THAT(error_of(R"({"prompt":"x","max_tokens":-3})"), HasSubstr("max_tokens is -3"));
  EXPECT_THAT(error_of(R"({"prompt":"x","temperature":-1})"), HasSubstr("temperature is -1"));
  EXPECT_THAT(error_of(R"({"prompt":"x","temperature":NaN})"), HasSubstr("no JSON"));
  EXPECT_THAT(error_of(R"({"prompt":"x","top_p":0})"), HasSubstr("top_p is 0"));
  EXPECT_THAT(error_of(R"({"prompt":"x","top_p":1.5})"), HasSubstr("top_p is 1.5"));
  EXPECT_THAT(error_of(R"({"prompt":5})"), HasSubstr("prompt is 5"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[1,-2]})"), HasSubstr("prompt_token_ids[1] is -2"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[4294967296]})"), HasSubstr("4294967296"));
  EXPECT_THAT(error_of(R"({"prompt_token_ids":[[1]]})"), HasSubstr("prompt_token_ids[0] is [1]"));
  EXPECT_THAT(error_of(R"({"messages":[{"content":"x"}]})"), HasSubstr("messages[0]"));
}

TEST(PromptLine, UnknownKeysGetASuggestion) {
  EXPECT_THAT(error_of(R"({"prompt":"x","temprature":1})"), HasSubstr("\"temperature\""));
  EXPECT_THAT(error_of(R"({"promt":"x"})"), HasSubstr("\"prompt\""));
}

TEST(PromptLine, BadJson) {
  EXPECT_THAT(error_of("{\"prompt\":\"x\""), HasSubstr("no JSON"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(error_of("{\"prompt\":\"\xff\"}"), HasSubstr("not UTF-8 at byte 11"));
  EXPECT_THAT(error_of(R"({"prompt":"x","prompt":"y"})"), HasSubstr("\"prompt\" is there twice"));
  EXPECT_THAT(error_of("{\"messages\":" + std::string(5000, '[')), HasSubstr("nests 5001 levels"));
  EXPECT_THAT(error_of(R"({"prompt":"x","temperature":1e999})"), HasSubstr("no JSON"));
}

TEST(PromptLine, AKeyMetTwiceAtAnyDepthIsNamed) {
  EXPECT_THAT(error_of(R"({"prompt":"x","logit_bias":{"1":2,"1":3}})"),
              HasSubstr("key \"1\" is there twice"));
  EXPECT_THAT(error_of(R"({"messages":[{"role":"user"},{"role":"a","x":{},"role":"b"}]})"),
              HasSubstr("key \"role\" is there twice"));
  EXPECT_TRUE(parse(R"({"messages":[{"role":"user"},{"role":"user","a":{"role":1}}]})").ok());
}

TEST(PromptLine, IdOfABadLine) {
  EXPECT_EQ(id_of_bad_line(R"({"id":"q","promt":"x"})", 3), "q");
  EXPECT_EQ(id_of_bad_line(R"({"id":"q")", 3), "3");
}

TEST(PromptIds, AnIdMetTwice) {
  PromptIds ids;
  EXPECT_TRUE(ids.add("a").ok());
  EXPECT_TRUE(ids.add("b").ok());
  EXPECT_THAT(message_of(ids.add("a")), HasSubstr("id \"a\""));
}

TEST(PromptLine, KeysOfALine) {
  EXPECT_EQ(keys_of_line(R"({"b": 1, "a": {"c": 2}})"), (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(keys_of_line("[1]").empty());
  EXPECT_TRUE(keys_of_line("{").empty());
}

TEST(PromptLine, RoutesAreOneTextOrLists) {
  EXPECT_EQ(parse(R"({"prompt_token_ids":[1]})")->routed_experts, nullptr);
  const auto lists = parse(R"({"prompt_token_ids":[1],"routed_experts":[[[3,1]]]})");
  ASSERT_TRUE(lists.ok()) << lists.status();
  EXPECT_EQ(lists->routed_experts->shape(), (Shape{1, 1, 2}));
  const auto text = parse(R"({"prompt_token_ids":[1],"routed_experts":"nrlre1:int8:1x1x2:AwE="})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->routed_experts->dtype(), DType::kInt8);
  EXPECT_EQ(*read_integers(text->routed_experts->view()),
            *read_integers(lists->routed_experts->view()));
  EXPECT_THAT(message_of(parse(R"({"prompt_token_ids":[1],"routed_experts":"x"})").status()),
              testing::HasSubstr("routed_experts is malformed"));
}

}  // namespace
}  // namespace rlgen::generation
