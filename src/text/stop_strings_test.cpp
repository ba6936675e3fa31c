#include "text/stop_strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "text/stop_watcher.h"
#include "text/test_tokenizers.h"

namespace rlgen::text {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;

std::shared_ptr<const StopStrings> stops(std::vector<std::string> strings,
                                         const Tokenizer& tokenizer) {
  return *StopStrings::make(std::move(strings), tokenizer);
}

// Where the scan of `ids` stops: token index, which string, where it begins in the visible text.
struct Stop {
  std::size_t token;
  std::size_t index;
  std::size_t begin;
  bool operator==(const Stop&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Stop& stop) {
  return out << stop.token << " " << stop.index << " " << stop.begin;
}

std::optional<Stop> scan(const std::shared_ptr<const Tokenizer>& tokenizer,
                         std::vector<std::string> strings, const Ids& ids, bool skip = true,
                         std::size_t min_tokens = 0) {
  StopScanner scanner(tokenizer, stops(std::move(strings), *tokenizer), skip);
  std::string visible;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto match = scanner.push(ids[i], i >= min_tokens, visible);
    if (match) return Stop{i, match->index, match->begin};
  }
  return std::nullopt;
}

TEST(StopStrings, RefusesWhatCannotBeSearched) {
  const auto tokenizer = test::byte_level();
  const Status empty = StopStrings::make({"a", ""}, *tokenizer).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("stop[1]"));
  EXPECT_THAT(std::string(StopStrings::make({"a\xFF"}, *tokenizer).status().message()),
              HasSubstr("stop[0]: not UTF-8: invalid byte at offset 1"));
}

TEST(StopScanner, FB016_FoundAcrossTokenBorders) {
  EXPECT_EQ(scan(test::byte_level(), {"hello w"}, {'a', 256, 257, 'o', 258}), (Stop{4, 0, 1}));
}

TEST(StopScanner, FB020_InsideABiggerToken) {
  EXPECT_EQ(scan(test::byte_level(), {".."}, {'a', 259}), (Stop{1, 0, 1}));
}

TEST(StopScanner, FB021_SpecialTokensAreSearchedThoughTheyAreNotShown) {
  EXPECT_EQ(scan(test::byte_level(), {"<|end|>"}, {'a', 'b', 300}), (Stop{2, 0, 2}));
  EXPECT_EQ(scan(test::byte_level(), {"b<|end|>c"}, {'a', 301, 'b', 300, 'c'}), (Stop{4, 0, 1}));
  EXPECT_EQ(scan(test::byte_level(), {"<|end|>"}, {'a', 'b', 300}, false), (Stop{2, 0, 2}));
}

TEST(StopScanner, PlainStringsAreSearchedInTheVisibleText) {
  EXPECT_EQ(scan(test::byte_level(), {"ab"}, {'a', 300, 'b'}), (Stop{2, 0, 0}));
  EXPECT_EQ(scan(test::byte_level(), {"ab"}, {'a', 300, 'b'}, false), std::nullopt);
}

TEST(StopScanner, FB032_WhatIsCompleteBeforeMinTokensNeverCounts) {
  EXPECT_EQ(scan(test::byte_level(), {"\n"}, test::bytes_of("a\nbcd\n"), true, 3), (Stop{5, 0, 5}));
  EXPECT_EQ(scan(test::byte_level(), {"ab"}, test::bytes_of("ab"), true, 1), (Stop{1, 0, 0}));
  const Ids run = test::fallback_bytes("世");
  Ids ids = run;
  ids.push_back(260);
  EXPECT_EQ(scan(test::llama_like(), {"世"}, ids, true, 3), std::nullopt);
}

TEST(StopScanner, AByteRunStopsAtTheByteThatCompletesIt) {
  EXPECT_EQ(scan(test::llama_like(), {"世"}, test::fallback_bytes("a世")), (Stop{3, 0, 1}));
}

TEST(StopScanner, TheStringThatIsCompleteFirstCounts) {
  EXPECT_EQ(scan(test::byte_level(), {"abcd", "bc"}, test::bytes_of("abcd")), (Stop{2, 1, 1}));
  EXPECT_EQ(scan(test::byte_level(), {"o", "lo", "llo"}, {256, 260}), (Stop{1, 2, 2}));
}

TEST(StopScanner, ABorderOfTheStringItselfIsNotLost) {
  EXPECT_EQ(scan(test::byte_level(), {"aab"}, test::bytes_of("aaab")), (Stop{3, 0, 1}));
  EXPECT_EQ(scan(test::byte_level(), {"abab"}, test::bytes_of("ababab"), true, 4), (Stop{5, 0, 2}));
}

TEST(StopScanner, AStopStringDoesNotBeginInThePrompt) {
  const auto tokenizer = test::byte_level();
  StopScanner scanner(tokenizer, stops({"ab"}, *tokenizer), true);
  scanner.follow(test::bytes_of("xa"));
  std::string visible;
  EXPECT_EQ(scanner.push('b', true, visible), std::nullopt);
}

TEST(StopScanner, SettledTextCannotBeCutOffAnyMore) {
  const auto tokenizer = test::byte_level();
  StopScanner scanner(tokenizer, stops({"stop", "<|end|>!"}, *tokenizer), true);
  std::string visible;
  scanner.push('a', true, visible);
  EXPECT_EQ(scanner.settled(), 1u);
  scanner.push('s', true, visible);
  scanner.push('t', true, visible);
  EXPECT_EQ(scanner.settled(), 1u);
  scanner.push('x', true, visible);
  EXPECT_EQ(scanner.settled(), 4u);
  scanner.push(300, true, visible);
  EXPECT_EQ(scanner.settled(), 4u);
}

// The scan of any cutting into tokens equals the plain search in the text.
RC_GTEST_PROP(StopScannerProperty, EqualsThePlainSearch, ()) {
  const auto tokenizer = test::byte_level();
  const auto letters = rc::gen::container<std::string>(rc::gen::element('h', 'e', 'l', 'o', '.'));
  const std::string text = *letters;
  const auto strings =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(letters)));
  std::size_t first_end = std::string::npos;
  for (const std::string& stop : strings) {
    const std::size_t at = text.find(stop);
    if (at != std::string::npos) first_end = std::min(first_end, at + stop.size());
  }
  for (const Ids& ids : {test::bytes_of(text), *tokenizer->encode(text, false)}) {
    const auto found = scan(tokenizer, strings, ids);
    RC_ASSERT(found.has_value() == (first_end != std::string::npos));
    if (!found) continue;
    RC_ASSERT(found->begin + strings[found->index].size() == first_end);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < found->token; ++i) bytes += tokenizer->token_bytes(ids[i]).size();
    RC_ASSERT(bytes < first_end);
    RC_ASSERT(first_end <= bytes + tokenizer->token_bytes(ids[found->token]).size());
  }
}

SequenceRequest request_with(std::vector<std::string> stop) {
  SequenceRequest request;
  request.prompt_token_ids = {'x', 'a'};
  request.sampling.stop = std::move(stop);
  return request;
}

TEST(StopWatcher, TellsTheStopString) {
  const auto factory = stop_watcher_factory(test::byte_level());
  EXPECT_EQ(*factory(request_with({})), nullptr);
  const auto watcher = *factory(request_with({"ll", "zz"}));
  EXPECT_EQ(watcher->on_token(256, true), std::nullopt);
  EXPECT_EQ(watcher->on_token(260, true), "ll");
  EXPECT_FALSE(factory(request_with({""})).ok());
}

TEST(StopWatcher, AContinuedSequenceIsFedItsEarlierOutput) {
  const auto factory = stop_watcher_factory(test::byte_level());
  SequenceRequest request = request_with({"ab"});
  const auto fresh = *factory(request);
  EXPECT_EQ(fresh->on_token('b', true), std::nullopt);
  request.sampling.output_prefix_len = 1;
  const auto continued = *factory(request);
  EXPECT_EQ(continued->on_token('a', true), std::nullopt);
  EXPECT_EQ(continued->on_token('b', true), "ab");
}

TEST(StopWatcher, FB023_IdsThatTheTokenizerLacksAreHarmless) {
  const auto watcher = *stop_watcher_factory(test::byte_level())(request_with({"ab"}));
  EXPECT_EQ(watcher->on_token('a', true), std::nullopt);
  EXPECT_EQ(watcher->on_token(5000, true), std::nullopt);
  EXPECT_EQ(watcher->on_token('b', true), "ab");
}

}  // namespace
}  // namespace rlgen::text
