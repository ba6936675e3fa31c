#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "text/test_tokenizers.h"

namespace rlgen::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHi = R"([{"role": "user", "content": "a"}])";

SpecialTokens special(const std::string& named_json) {
  SpecialTokens tokens;
  tokens.named_json = named_json;
  return tokens;
}

std::string message(const Status& status) { return std::string(status.message()); }

class ChatTemplateFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::filesystem::path& name, const std::string& content) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  auto load() { return ChatTemplate::load(folder_.string(), special("{}")); }
  std::filesystem::path folder_;
};

TEST_F(ChatTemplateFolder, TheJinjaFileGoesBeforeTheConfiguration) {
  write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(*(*load())->render({.messages_json = kHi}), "config");
  write("chat_template.jinja", "file");
  EXPECT_EQ(*(*load())->render({.messages_json = kHi}), "file");
  EXPECT_EQ((*load())->source(), "file");
}

TEST_F(ChatTemplateFolder, NamedTemplates) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain"},
                              {"name": "tool_use", "template": "tools"}]})");
  write("additional_chat_templates/rag.jinja", "rag");
  const auto made = *load();
  EXPECT_THAT(made->names(), ElementsAre("default", "rag", "tool_use"));
  EXPECT_EQ(*made->render({.messages_json = kHi}), "plain");
  EXPECT_EQ(*made->render({.messages_json = kHi, .tools_json = "[]"}), "tools");
  EXPECT_EQ(*made->render({.messages_json = kHi, .template_name = "rag"}), "rag");
  const Status unknown = made->render({.messages_json = kHi, .template_name = "x"}).status();
  EXPECT_THAT(message(unknown), HasSubstr("no chat template 'x'; it has: default, rag, tool_use"));
}

TEST_F(ChatTemplateFolder, FB072_NoTemplateIsAnErrorNotAGuess) {
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(load().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message(load().status()), HasSubstr("has no chat template"));
}

TEST_F(ChatTemplateFolder, AnErrorNamesFolderTemplateAndLine) {
  write("chat_template.jinja", "a\n{% if %}");
  EXPECT_EQ(load().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(load().status()), StartsWith(folder_.string()));
  EXPECT_THAT(message(load().status()),
              HasSubstr("'default': chat template at line 2: syntax error"));
}

TEST(ChatTemplate, FB072_TheFallbackMustBeAskedForAndBeginsWithBos) {
  const auto with_bos = *ChatTemplate::fallback(special(R"({"bos_token": "<s>"})"));
  EXPECT_EQ(*with_bos->render({.messages_json = kHi}), "<s>user: a\nassistant:");
  const auto without = *ChatTemplate::fallback(special("{}"));
  EXPECT_EQ(*without->render({.messages_json = kHi}), "user: a\nassistant:");
}

TEST(ChatTemplate, FB071_ExactlyOneBosInTheIds) {
  const auto tokenizer = test::llama_like();
  const auto made = *ChatTemplate::from_source("{{ bos_token }}{{ messages[0].content }}",
                                               tokenizer->special_tokens());
  const auto ids = *made->render_ids({.messages_json = kHi}, *tokenizer);
  EXPECT_EQ(ids.front(), *tokenizer->bos_id());
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer->bos_id()), 1);
}

TEST(ChatTemplate, FB189_ArgumentsKeepTheirOrder) {
  const auto made = *ChatTemplate::from_source("{{ messages[0] | tojson }}", special("{}"));
  EXPECT_EQ(*made->render({.messages_json = R"([{"z":1,"a":{"y":2,"b":3.0}}])"}),
            R"({"z": 1, "a": {"y": 2, "b": 3.0}})");
}

TEST(ChatTemplate, ExtraVariablesAndTheClock) {
  const auto made = *ChatTemplate::from_source(
      "{{ enable_thinking }} {{ strftime_now('%Y-%m-%d') }}", special("{}"));
  EXPECT_EQ(*made->render({.messages_json = kHi,
                           .extra_json = R"({"enable_thinking": false})",
                           .clock = "2024-07-26T00:00:00"}),
            "False 2024-07-26");
  const Status bad = made->render({.messages_json = kHi, .clock = "tomorrow"}).status();
  EXPECT_THAT(message(bad), HasSubstr("clock 'tomorrow'"));
}

TEST(ChatTemplate, FB191_WhatATemplateCannotDoIsAnErrorWithTheLine) {
  const auto made =
      *ChatTemplate::from_source("ok\n\n{{ messages[0].content.nosuch() }}", special("{}"));
  const Status refused = made->render({.messages_json = kHi}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(refused), HasSubstr("line 3"));
}

TEST(ChatTemplate, TheTemplatesOwnRefusalIsGivenOn) {
  const auto made = *ChatTemplate::from_source("{{ raise_exception('roles!') }}", special("{}"));
  EXPECT_EQ(message(made->render({.messages_json = kHi}).status()),
            "the chat template refused at line 1: roles!");
}

TEST(ChatTemplate, BadJsonNamesThePart) {
  const auto made = *ChatTemplate::from_source("x", special("{}"));
  EXPECT_THAT(message(made->render({.messages_json = "[{]"}).status()),
              StartsWith("messages: not valid JSON"));
  EXPECT_THAT(message(made->render({.messages_json = kHi, .tools_json = "{}"}).status()),
              StartsWith("tools: not a JSON array"));
}

TEST(ChatTemplate, DeepNestingEndsInAnErrorNotACrash) {
  const auto made = *ChatTemplate::from_source("{{ messages }}", special("{}"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_FALSE(made->render({.messages_json = deep}).ok());
  const auto endless =
      *ChatTemplate::from_source("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", special("{}"));
  EXPECT_FALSE(endless->render({.messages_json = kHi}).ok());
}

TEST(ChatTemplateArguments, OnesThatTheTemplateNeverLooksAtAreRefused) {
  const auto made = ChatTemplate::from_source(
      "{{ messages[0].tools }}{% if enable_thinking %}think{% endif %}", SpecialTokens{});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto error_of = [&](const ChatRequest& request) {
    return message_of((*made)->check_arguments(request));
  };
  EXPECT_EQ(error_of({.messages_json = kHi}), "");
  EXPECT_EQ(error_of({.messages_json = kHi, .tools_json = "[]"}), "");
  EXPECT_EQ(error_of({.messages_json = kHi, .extra_json = R"({"enable_thinking":false})"}), "");
  EXPECT_THAT(error_of({.messages_json = kHi, .tools_json = R"([{"name":"f"}])"}),
              HasSubstr("tools: the chat template"));
  EXPECT_THAT(error_of({.messages_json = kHi, .extra_json = R"({"enable_thinkin":true})"}),
              HasSubstr("chat_template_kwargs.enable_thinkin: the chat template"));
  EXPECT_THAT(error_of({.messages_json = kHi, .extra_json = "[1]"}), HasSubstr("JSON object"));
}

}  // namespace
}  // namespace rlgen::text
