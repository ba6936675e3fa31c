#include "generation/text_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rlgen::generation {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr char kTextModel[] = "tests/fixtures/checkpoints/llama_text";
constexpr char kStories[] = "tests/fixtures/checkpoints/table_stories";

std::shared_ptr<const TextSession> open(const std::string& folder) {
  auto session = TextSession::open(folder);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

Rollout rollout_of(std::vector<int32_t> ids, Finish finish, SamplingParams sampling = {}) {
  Rollout rollout;
  rollout.prompt_token_ids = {10};
  for (const int32_t id : ids) rollout.tokens.push_back({.token = id, .logprob = -1.0f});
  rollout.finish = std::move(finish);
  rollout.sampling = std::move(sampling);
  return rollout;
}

std::string text_of(Rollout rollout) {
  const Status status = open(kStories)->fill_text(&rollout);
  EXPECT_TRUE(status.ok()) << status;
  return rollout.text;
}

TEST(TextSession, ThePadTokenIsTheOneThatTheTokenizerNames) {
  const auto session = open(kTextModel);
  EXPECT_EQ(session->pad_token_id(), session->tokenizer().token_to_id("<|pad|>"));
  EXPECT_TRUE(session->pad_token_id().has_value());
  EXPECT_EQ(open(kStories)->pad_token_id(), std::nullopt);
}

TEST(TextSession, ACheckpointWithoutATokenizer) {
  constexpr char kLlama[] = "tests/fixtures/checkpoints/llama";
  EXPECT_EQ(TextSession::open(kLlama).status().code(), absl::StatusCode::kNotFound);
  const auto none = TextSession::open_if_there(kLlama);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*none, nullptr);
  EXPECT_FALSE(TextSession::bad_words(*none));
}

TEST(TextSession, BadWordsKeepTheirSession) {
  const auto resolve = TextSession::bad_words(*TextSession::open_if_there(kStories));
  EXPECT_EQ(*resolve("London"), *open(kStories)->bad_word_ids("London"));
  EXPECT_EQ(resolve("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TextSession, EncodesEveryKindOfPrompt) {
  const auto session = open(kTextModel);
  EXPECT_THAT(*session->encode(TokenPrompt{3, 4}), ElementsAre(3, 4));
  const auto plain = session->encode(TextPrompt{"hello"});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*session->tokenizer().decode(*plain, true), "hello");
}

TEST(TextSession, MessagesNeedATemplate) {
  const auto session = open(kStories);
  if (session->chat_template() != nullptr) GTEST_SKIP() << "the fixture got a template";
  EXPECT_EQ(
      session->encode(ChatPrompt{R"([{"role":"user","content":"x"}])", "", ""}).status().code(),
      absl::StatusCode::kNotFound);
}

TEST(TextSession, FB024_AWordIsBannedWithAndWithoutABlank) {
  const auto session = open(kTextModel);
  for (const std::string word : {"a", " a"}) {
    const auto ids = session->bad_word_ids(word);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_THAT(*ids, Contains(*session->tokenizer().encode("a", false)));
    EXPECT_THAT(*ids, Contains(*session->tokenizer().encode(" a", false)));
  }
}

TEST(TextSession, FB016_TheTextEndsBeforeTheStopString) {
  EXPECT_EQ(
      text_of(rollout_of({11, 12, 13},
                         {.reason = FinishReason::kStop, .stop_reason = std::string("hello world")},
                         {.stop = {"hello world"}})),
      "");
}

TEST(TextSession, FB049_AnUndefinedIdHasNoText) {
  EXPECT_EQ(text_of(rollout_of({11, 60, 12}, {.reason = FinishReason::kLength})), "hello wor");
}

TEST(TextSession, FB064_StreamAndWholeTextAreEqual) {
  const auto session = open(kStories);
  auto stream = session->stream({}, {10});
  ASSERT_TRUE(stream.ok());
  std::string streamed;
  const std::vector<int32_t> ids{27, 28, 29};
  for (size_t i = 0; i < ids.size(); ++i) {
    std::optional<Finish> finish;
    if (i + 1 == ids.size()) finish = Finish{.reason = FinishReason::kLength};
    streamed += stream->take(std::span(&ids[i], 1), finish);
  }
  EXPECT_EQ(streamed, "\U0001F600!");
  EXPECT_EQ(text_of(rollout_of(ids, {.reason = FinishReason::kLength})), streamed);
}

}  // namespace
}  // namespace rlgen::generation
