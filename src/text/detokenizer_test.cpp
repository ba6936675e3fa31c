#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/utf8.h"
#include "text/test_tokenizers.h"

namespace rlgen::text {
namespace {

using Ids = std::vector<int32_t>;

std::vector<std::string> stream(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids,
                                bool skip, const Ids& prompt = {}) {
  Detokenizer detokenizer(tokenizer, skip);
  detokenizer.follow(prompt);
  std::vector<std::string> pieces;
  for (int32_t id : ids) detokenizer.push(id, pieces.emplace_back());
  detokenizer.finish(pieces.emplace_back());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

using Pieces = std::vector<std::string>;

TEST(Detokenizer, FB064_ACharacterComesInOnePiece) {
  EXPECT_EQ(stream(test::byte_level(), test::bytes_of("\xF0\x9F\x98\x80"), true),
            (Pieces{"", "", "", "\U0001F600", ""}));
}

TEST(Detokenizer, FB065_NothingIsSentTwice) {
  EXPECT_EQ(stream(test::byte_level(),
                   test::bytes_of("A \xE4\xB8\x96"
                                  "ab"),
                   true),
            (Pieces{"A", " ", "", "", "世", "a", "b", ""}));
}

TEST(Detokenizer, FB067_AnOpenCharacterOfThePromptIsCompletedWithoutThePrompt) {
  const Ids prompt = test::bytes_of("a long prompt \xC4");
  EXPECT_EQ(stream(test::byte_level(), {0x8F, 'x'}, true, prompt), (Pieces{"ď", "x", ""}));
  EXPECT_EQ(joined(stream(test::llama_like(), test::fallback_bytes("\x8F"), true,
                          test::fallback_bytes("a\xC4"))),
            "ď");
}

TEST(Detokenizer, FB068_ManyCharactersSplitOverTokensLoseNothing) {
  std::string text;
  for (int i = 0; i < 500; ++i) {
    const int code = 0xAC00 + i * 7;
    text += {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
             static_cast<char>(0x80 | (code & 0x3F))};
  }
  EXPECT_EQ(joined(stream(test::byte_level(), test::bytes_of(text), true)), text);
  EXPECT_EQ(joined(stream(test::llama_like(), test::fallback_bytes(text), true)), text);
}

TEST(Detokenizer, FB199_AnOutputCutInsideACharacterEndsInOneReplacement) {
  EXPECT_EQ(stream(test::byte_level(), {'a', 0xF0, 0x9F}, true), (Pieces{"a", "", "", "\uFFFD"}));
}

TEST(Detokenizer, FB049_UndefinedIdsAreSilent) {
  EXPECT_EQ(joined(stream(test::byte_level(), {'a', 270, -7, 100000, 'b'}, true)), "ab");
}

TEST(Detokenizer, SpecialTokensAreSkippedOrNot) {
  EXPECT_EQ(joined(stream(test::byte_level(), {'a', 300, 302, 'b'}, true)), "a<tool>b");
  EXPECT_EQ(joined(stream(test::byte_level(), {'a', 300, 'b'}, false)), "a<|end|>b");
}

TEST(Detokenizer, TheLeadingSpaceBelongsToTheStartAlone) {
  const Ids ids = {263, 263};
  EXPECT_EQ(joined(stream(test::llama_like(), ids, true)), "a a");
  EXPECT_EQ(joined(stream(test::llama_like(), ids, true, {261})), " a a");
  EXPECT_EQ(joined(stream(test::metaspace(), {7, 7}, true)), "a a");
  EXPECT_EQ(joined(stream(test::metaspace(), {7, 7}, true, {4})), " a a");
}

TEST(Detokenizer, AByteRunIsDecidedWhereItEnds) {
  Detokenizer detokenizer(test::llama_like(), true);
  std::string text;
  for (int32_t id : test::fallback_bytes("世")) detokenizer.push(id, text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(detokenizer.undecided(), "世");
  detokenizer.push(3 + 0xFF, text);
  EXPECT_EQ(text, "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(detokenizer.undecided(), "");
}

TEST(Detokenizer, OtherDecodersGiveTheirText) {
  EXPECT_EQ(joined(stream(test::word_piece(), {1, 3, 2, 4}, true)), "helloly world!");
  EXPECT_EQ(joined(stream(test::word_piece(), {2, 3}, true, {1})), " worldly");
}

// Streaming equals decoding at once, for any ids, with each kind of decoder.
struct Case {
  std::shared_ptr<const Tokenizer> tokenizer;
  int32_t first_plain;  // ids from here on are drawn more often
};

void check_streaming(const Case& test_case) {
  const int32_t end = test_case.tokenizer->vocab_size() + 3;
  const Ids ids = *rc::gen::container<Ids>(
      rc::gen::oneOf(rc::gen::inRange(-1, end), rc::gen::inRange(test_case.first_plain, end),
                     rc::gen::elementOf(test::fallback_bytes("世\xF0\x9F\x98\x80"))));
  for (bool skip : {false, true}) {
    const auto pieces = stream(test_case.tokenizer, ids, skip);
    for (const std::string& piece : pieces) RC_ASSERT(!first_invalid_utf8(piece).has_value());
    RC_ASSERT(joined(pieces) == *test_case.tokenizer->decode(ids, skip));
  }
}

RC_GTEST_PROP(DetokenizerProperty, ByteLevelEqualsDecode, ()) {
  check_streaming({test::byte_level(), 250});
}
RC_GTEST_PROP(DetokenizerProperty, LlamaLikeEqualsDecode, ()) {
  check_streaming({test::llama_like(), 259});
}
RC_GTEST_PROP(DetokenizerProperty, MetaspaceEqualsDecode, ()) {
  check_streaming({test::metaspace(), 3});
}
RC_GTEST_PROP(DetokenizerProperty, WordPieceEqualsDecode, ()) {
  check_streaming({test::word_piece(), 1});
}

// With a prompt before it the output is what decoding both adds to decoding the prompt.
RC_GTEST_PROP(DetokenizerProperty, FollowingAPromptAddsWhatDecodingBothAdds, ()) {
  const auto tokenizer = test::llama_like();
  const auto plain = rc::gen::container<Ids>(rc::gen::inRange(259, tokenizer->vocab_size()));
  const Ids prompt = *plain;
  const Ids ids = *plain;
  Ids both = prompt;
  both.insert(both.end(), ids.begin(), ids.end());
  RC_ASSERT(*tokenizer->decode(prompt, true) + joined(stream(tokenizer, ids, true, prompt)) ==
            *tokenizer->decode(both, true));
}

}  // namespace
}  // namespace rlgen::text
