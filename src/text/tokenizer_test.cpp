#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "text/test_tokenizers.h"

namespace rlgen::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

TEST(Tokenizer, EncodesAndDecodes) {
  const auto tokenizer = test::byte_level();
  const auto ids = tokenizer->encode("hello w", true);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(*ids, ElementsAre(256, 260, 258));
  EXPECT_EQ(*tokenizer->decode(*ids, true), "hello w");
}

TEST(Tokenizer, FB049_UndefinedIdsHaveNoText) {
  const auto tokenizer = test::byte_level();
  EXPECT_EQ(*tokenizer->decode(Ids{'a', 270, 'b', 9999, -1}, false), "ab");
  EXPECT_EQ(tokenizer->token_bytes(270), "");
  EXPECT_EQ(tokenizer->token_bytes(-1), "");
  EXPECT_FALSE(tokenizer->is_defined(270));
  EXPECT_EQ(*test::llama_like()->decode(Ids{260, 9999, -5, 261}, false), "ab");
}

TEST(Tokenizer, FB051_VocabSizeIsTheHighestIdPlusOne) {
  const auto tokenizer = test::byte_level();
  EXPECT_EQ(tokenizer->vocab_size(), 304);
  EXPECT_THAT(*tokenizer->encode("a<|end|>", false), ElementsAre('a', 300));
  EXPECT_TRUE(tokenizer->is_special(300));
  EXPECT_THAT(tokenizer->special_ids(), ElementsAre(300, 301));
}

TEST(Tokenizer, FB071_OneBosFromThePostProcessorAndNoneWithoutIt) {
  const auto tokenizer = test::llama_like();
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->encode("a", true)->front(), 1);
  EXPECT_EQ((*tokenizer->encode("a", true))[1], 263);
  EXPECT_EQ(tokenizer->encode("<s>a", false)->front(), 1);
  EXPECT_NE((*tokenizer->encode("<s>a", false))[1], 1);
}

// A pattern that is given as a string is no regular expression, whatever it looks like.
TEST(Tokenizer, FB185_LiteralPatternsStayLiteral) {
  constexpr std::string_view kJson = R"({
    "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
    "decoder": null, "truncation": null, "padding": null,
    "pre_tokenizer": {"type": "Split", "pattern": {"String": "a|b"}, "behavior": "Isolated",
                      "invert": false},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
              "byte_fallback": false, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "ignore_merges": false,
              "vocab": {"a": 0, "|": 1, "b": 2, "x": 3, "xa": 4, "a|": 5, "a|b": 6},
              "merges": [["x", "a"], ["a", "|"], ["a|", "b"]]}})";
  const auto tokenizer = Tokenizer::from_json(kJson, "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->encode("xa|bx", false), ElementsAre(3, 6, 3));
  EXPECT_THAT(*(*tokenizer)->encode("xa", false), ElementsAre(4));
}

TEST(Tokenizer, FB188_AddedTokensAreTheirOwnText) {
  EXPECT_EQ(*test::byte_level()->decode(Ids{303}, false), "é");
  EXPECT_EQ(test::byte_level()->token_bytes(303), "é");
}

TEST(Tokenizer, TokenBytesOfEachKind) {
  EXPECT_EQ(test::byte_level()->token_bytes(0xE4), "\xE4");
  EXPECT_EQ(test::byte_level()->token_bytes(258), " w");
  EXPECT_EQ(test::llama_like()->token_bytes(3 + 0xE4), "\xE4");
  EXPECT_TRUE(test::llama_like()->is_byte(3 + 0xE4));
  EXPECT_EQ(test::llama_like()->token_bytes(263), " a");
  EXPECT_FALSE(test::llama_like()->is_byte(263));
  EXPECT_EQ(test::word_piece()->token_bytes(1), "hello");
}

TEST(Tokenizer, NamesAndIds) {
  const auto tokenizer = test::byte_level();
  EXPECT_EQ(tokenizer->token_to_id("<|end|>"), 300);
  EXPECT_EQ(tokenizer->token_to_id("nope"), std::nullopt);
  EXPECT_EQ(tokenizer->id_to_token(258), "Ġw");
  EXPECT_EQ(tokenizer->id_to_token(270), std::nullopt);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
}

TEST(Tokenizer, RefusesInvalidUtf8WithTheOffset) {
  const auto ids = test::byte_level()->encode("ab\xFFzz", false);
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("invalid byte at offset 2"));
}

TEST(Tokenizer, RefusesTextAboveTheLimits) {
  const auto small = Tokenizer::from_json(test::byte_level_json(), "", {.max_text_bytes = 4});
  EXPECT_TRUE((*small)->encode("abcd", false).ok());
  EXPECT_EQ((*small)->encode("abcde", false).status().code(), absl::StatusCode::kResourceExhausted);
  const auto narrow = Tokenizer::from_json(test::byte_level_json(), "", {.max_whitespace_run = 3});
  EXPECT_TRUE((*narrow)->encode("a   b   c", false).ok());
  const Status refused = (*narrow)->encode("a \u00a0\u3000\nb", false).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("4 whitespace characters in a row at offset 1"));
}

TEST(Tokenizer, TheLongestAllowedWhitespaceRunKeepsEveryByte) {
  const auto tokenizer = test::byte_level();
  const std::string text = "a" + std::string(EncodeLimits{}.max_whitespace_run, ' ') + "b";
  EXPECT_EQ(*tokenizer->decode(*tokenizer->encode(text, false), false), text);
}

TEST(Tokenizer, MissingFileNamesItAndSaysWhatToDo) {
  const auto loaded = Tokenizer::load("/nowhere/at/all");
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("/nowhere/at/all/tokenizer.json"));
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("save_pretrained"));
}

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const char* name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::filesystem::path folder_;
};

TEST_F(TokenizerFolder, ReadsTheFilesBesideTheTokenizer) {
  write("tokenizer.json", test::byte_level_json());
  write("special_tokens_map.json",
        R"({"bos_token": {"content": "<|obs|>"}, "eos_token": "<|end|>"})");
  const auto loaded = Tokenizer::load(folder_.string());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->bos_id(), 301);
  EXPECT_EQ((*loaded)->eos_id(), 300);
  EXPECT_EQ((*loaded)->special_tokens().named_json,
            R"({"bos_token":"<|obs|>","eos_token":"<|end|>"})");
}

TEST_F(TokenizerFolder, FB023_AddedTokensOfTheConfigurationAreAdded) {
  write("tokenizer.json", test::byte_level_json());
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"304": {"content": "<think>", "special": false}},
            "eos_token": "<|end|>"})");
  const auto loaded = Tokenizer::load(folder_.string());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(*(*loaded)->encode("a<think>", false), ElementsAre('a', 304));
  EXPECT_FALSE((*loaded)->is_special(304));
  EXPECT_TRUE((*loaded)->is_special(300));
}

TEST_F(TokenizerFolder, BrokenFilesAreNamed) {
  write("tokenizer.json", "{\"version\": \"1.0\"");
  const Status broken = Tokenizer::load(folder_.string()).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(broken.message()), HasSubstr("tokenizer.json"));
  write("tokenizer_config.json", "[]");
  EXPECT_THAT(std::string(Tokenizer::load(folder_.string()).status().message()),
              HasSubstr("tokenizer_config.json: not a JSON object"));
}

TEST(Tokenizer, ManyThreadsMayUseOne) {
  const auto tokenizer = test::byte_level();
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        count += tokenizer->encode("hello world", false) == tokenizer->encode("hello world", false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(50));
}

}  // namespace
}  // namespace rlgen::text
