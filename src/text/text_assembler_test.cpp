#include "text/text_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "text/detokenizer.h"
#include "text/stop_watcher.h"
#include "text/test_tokenizers.h"

namespace rlgen::text {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

struct Setup {
  std::vector<std::string> stop;
  bool include = false;
  bool skip = true;
};

SamplingParams sampling(const Setup& setup) {
  SamplingParams params;
  params.stop = setup.stop;
  params.include_stop_str_in_output = setup.include;
  params.skip_special_tokens = setup.skip;
  return params;
}

TextAssembler assembler(const Setup& setup) {
  return *TextAssembler::make(test::byte_level(), sampling(setup), {});
}

Finish by_string(const std::string& stop) { return {.stop_reason = stop}; }
Finish by_token(int32_t id) { return {.stop_reason = id}; }
Finish by_eos() { return {}; }
Finish by_length() { return {.reason = FinishReason::kLength}; }

// One event per token, the finish with the last; the pieces that were shown.
std::vector<std::string> stream(const Setup& setup, const Ids& ids, const Finish& finish) {
  TextAssembler made = assembler(setup);
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool last = i + 1 == ids.size();
    pieces.push_back(
        made.take(std::span(&ids[i], 1), last ? std::optional<Finish>(finish) : std::nullopt));
  }
  std::string joined;
  for (const std::string& piece : pieces) joined += piece;
  EXPECT_EQ(joined, made.text());
  return pieces;
}

std::string whole(const Setup& setup, const Ids& ids, const Finish& finish) {
  TextAssembler made = assembler(setup);
  made.take(ids, finish);
  return std::string(made.text());
}

TEST(TextAssembler, FB016_NoHeadOfAStopStringIsShown) {
  const Ids ids = {256, 260, 258, 'o'};
  EXPECT_THAT(stream({.stop = {"hello wo"}}, ids, by_string("hello wo")),
              ElementsAre("", "", "", ""));
}

TEST(TextAssembler, WhatOnlyLookedLikeAStopIsShown) {
  const Ids ids = {256, 260, 'x'};
  EXPECT_THAT(stream({.stop = {"hello w"}}, ids, by_length()), ElementsAre("", "", "hellox"));
  EXPECT_THAT(stream({.stop = {"hello w"}}, {256, 260}, by_length()), ElementsAre("", "hello"));
}

TEST(TextAssembler, FB019_AStopTokenIsShownOnlyWhenIncluded) {
  for (bool skip : {true, false}) {
    EXPECT_EQ(whole({.include = false, .skip = skip}, {'a', 301}, by_token(301)), "a");
    EXPECT_EQ(whole({.include = true, .skip = skip}, {'a', 301}, by_token(301)), "a<|obs|>");
    EXPECT_EQ(whole({.include = false, .skip = skip}, {'a', 302}, by_token(302)), "a");
    EXPECT_EQ(whole({.include = true, .skip = skip}, {'a', 302}, by_token(302)), "a<tool>");
  }
}

TEST(TextAssembler, EndOfSequenceFollowsSkipSpecialTokens) {
  EXPECT_EQ(whole({.include = true, .skip = true}, {'a', 300}, by_eos()), "a");
  EXPECT_EQ(whole({.include = true, .skip = false}, {'a', 300}, by_eos()), "a<|end|>");
  EXPECT_EQ(whole({.include = false, .skip = false}, {'a', 300}, by_eos()), "a");
}

TEST(TextAssembler, FB020_ABiggerTokenIsCutInTheTextOrKeptWhole) {
  EXPECT_EQ(whole({.stop = {".."}}, {'a', 259}, by_string("..")), "a");
  EXPECT_EQ(whole({.stop = {".."}, .include = true}, {'a', 259}, by_string("..")), "a...");
}

TEST(TextAssembler, FB021_ASpecialTokenAsStopString) {
  const Ids ids = {'a', 'b', 300};
  const Finish finish = by_string("<|end|>");
  EXPECT_EQ(whole({.stop = {"<|end|>"}}, ids, finish), "ab");
  EXPECT_EQ(whole({.stop = {"<|end|>"}, .include = true}, ids, finish), "ab<|end|>");
  EXPECT_EQ(whole({.stop = {"b<|end|>"}}, ids, by_string("b<|end|>")), "a");
  EXPECT_THAT(stream({.stop = {"b<|end|>"}, .include = true}, ids, by_string("b<|end|>")),
              ElementsAre("a", "", "b<|end|>"));
}

TEST(TextAssembler, FB032_AStopBeforeMinTokensStaysInTheText) {
  EXPECT_EQ(whole({.stop = {"\n"}}, {'a', '\n', 'b', '\n'}, by_string("\n")), "a\nb");
}

TEST(TextAssembler, FB199_ACharacterThatIsCutOffEndsInOneReplacement) {
  EXPECT_THAT(stream({}, {0xF0}, by_length()), ElementsAre("\uFFFD"));
  EXPECT_THAT(stream({}, {'a', 0xF0, 0x9F}, by_length()), ElementsAre("a", "", "\uFFFD"));
}

TEST(TextAssembler, ForeignStopsAreCutWhereTheStringIs) {
  EXPECT_EQ(whole({}, {'a', 'X', 'Y'}, by_string("XY")), "a");
  EXPECT_EQ(whole({}, {'a', 'b'}, by_string("XY")), "ab");
}

TEST(TextAssembler, AnAbortGivesWhatWasHeld) {
  TextAssembler made = assembler({.stop = {"stop"}});
  EXPECT_EQ(made.take(Ids{'a', 's', 't'}, std::nullopt), "a");
  EXPECT_EQ(made.take({}, Finish{.reason = FinishReason::kAbort}), "st");
}

TEST(TextAssembler, FB067_GoesOnAfterAPromptThatEndsInsideACharacter) {
  const Ids prompt = {'x', 0xC4};
  TextAssembler made = *TextAssembler::make(test::byte_level(), sampling({}), prompt);
  EXPECT_EQ(made.take(Ids{0x8F}, by_length()), "ď");
}

// However the ids are cut into events, the text is one; and without an included stop it never
// holds the string that stopped it.
RC_GTEST_PROP(TextAssemblerProperty, EventsDoNotMatter, ()) {
  const auto tokenizer = test::byte_level();
  Setup setup{.stop = {"lol", "<|end|>o", "e."},
              .include = *rc::gen::arbitrary<bool>(),
              .skip = *rc::gen::arbitrary<bool>()};
  SequenceRequest request;
  request.sampling = sampling(setup);
  const auto watcher = *stop_watcher_factory(tokenizer)(request);
  const auto drawn = *rc::gen::container<Ids>(
      rc::gen::element<int32_t>('h', 'e', 'l', 'o', '.', 0xE4, 256, 257, 259, 260, 300, 301));
  Ids ids;
  Finish finish = by_length();
  for (int32_t id : drawn) {
    ids.push_back(id);
    if (auto stop = watcher->on_token(id, true)) {
      finish = by_string(*stop);
      break;
    }
  }
  const std::string text = whole(setup, ids, finish);
  std::string joined;
  for (const std::string& piece :
       ids.empty() ? std::vector<std::string>{} : stream(setup, ids, finish)) {
    joined += piece;
  }
  RC_ASSERT(joined == text);
  const bool stopped = finish.reason == FinishReason::kStop;
  if (!stopped || (setup.include && !setup.skip)) {
    RC_ASSERT(text == *tokenizer->decode(ids, setup.skip));
  } else if (setup.include) {
    RC_ASSERT(text.find(std::get<std::string>(finish.stop_reason)) != std::string::npos);
  } else {
    RC_ASSERT(text.find(std::get<std::string>(finish.stop_reason)) == std::string::npos);
  }
}

// A sequence that is continued after any of its ids gives what those ids did not give yet.
RC_GTEST_PROP(TextAssemblerProperty, AContinuedSequenceGivesTheRest, ()) {
  const auto tokenizer = test::byte_level();
  Setup setup{.stop = {"lol", "<|end|>o", "e.", "o<|end|>"},
              .include = *rc::gen::arbitrary<bool>(),
              .skip = *rc::gen::arbitrary<bool>()};
  SequenceRequest request;
  request.sampling = sampling(setup);
  const auto watcher = *stop_watcher_factory(tokenizer)(request);
  const auto drawn = *rc::gen::nonEmpty(rc::gen::container<Ids>(
      rc::gen::element<int32_t>('h', 'e', 'l', 'o', '.', 0xE4, 256, 257, 259, 260, 300, 301)));
  Ids ids;
  Finish finish = by_length();
  for (int32_t id : drawn) {
    ids.push_back(id);
    if (auto stop = watcher->on_token(id, true)) {
      finish = by_string(*stop);
      break;
    }
  }
  const std::string text = whole(setup, ids, finish);
  const auto cut = *rc::gen::inRange<std::size_t>(0, ids.size());
  std::string earlier;
  Detokenizer detokenizer(tokenizer, setup.skip);
  for (std::size_t i = 0; i < cut; ++i) detokenizer.push(ids[i], earlier);

  SamplingParams continued = sampling(setup);
  continued.output_prefix_len = static_cast<int32_t>(cut);
  Ids prompt = {'x'};
  prompt.insert(prompt.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut));
  TextAssembler made = *TextAssembler::make(tokenizer, continued, prompt);
  made.take(std::span(ids).subspan(cut), finish);
  RC_ASSERT(made.text() == text.substr(std::min(earlier.size(), text.size())));
}

// An open character at the end of the prompt, or of earlier output, is not text of new tokens.
TEST(TextAssembler, NoTokensGiveNoText) {
  const Ids prompt = {'x', 0xF0};
  for (const int32_t earlier : {0, 1}) {
    for (const Finish& finish : {by_length(), by_token(0xF0), by_eos()}) {
      SamplingParams params = sampling({.skip = false});
      params.output_prefix_len = earlier;
      TextAssembler made = *TextAssembler::make(test::byte_level(), params, prompt);
      EXPECT_EQ(made.take({}, finish), "");
      EXPECT_EQ(made.text(), "");
    }
  }
}

}  // namespace
}  // namespace rlgen::text
