#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "cli/command_line.h"
#include "cli/option_words.h"
#include "cli/sampling_options.h"
#include "cli/test_command_line.h"

// Which values the options refuse, and in which words.
namespace rlgen::cli {
namespace {

using test::error_of;
using test::parse;
using test::words;
using testing::HasSubstr;

struct Wrong {
  std::string option;
  std::string rule;
};

// The error of these arguments; the value is one of them, whatever is in it.
std::string error_with(const std::string& start, const std::string& option,
                       const std::string& value) {
  std::vector<std::string> arguments = words(start);
  arguments.insert(arguments.end(), {option, value});
  const Status status = parse_command_line(arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << start << option << value;
  return message_of(status);
}

bool is_number(const std::string& value) {
  return !value.empty() && value.find_first_not_of("-0123456789.e") == std::string::npos;
}

// Each with the values that no option of its kind takes: one sentence says what it takes.
void expect_refused(const std::string& start, const std::vector<Wrong>& options,
                    const std::vector<std::string>& values) {
  for (const auto& [option, rule] : options) {
    for (const std::string& value : values) {
      const std::string shown = is_number(value) ? value : "\"" + value + "\"";
      EXPECT_EQ(error_with(start, option, value), option + " is " + shown + "; it must be " + rule);
    }
  }
}

const std::string kGenerateRun = "generate --model m --prompts p --output o";
const std::vector<std::string> kNoNumbers = {"x", "", "1 ", "0x10", "1,5", "nan", "inf", "5k"};

TEST(CommandLine, WholeNumbersAreRefusedWithTheRangeThatHolds) {
  const std::vector<Wrong> engine = {
      {"--max-num-seqs", "a whole number from 1 to 1048576"},
      {"--max-num-batched-tokens", "a whole number from 1 to 16777216"},
      {"--block-size", "a multiple of 16 from 16 to 1024"},
      {"--threads", "a whole number from 1 to " + std::to_string(machine_cpus())}};
  std::vector<std::string> values = kNoNumbers;
  values.insert(values.end(), {"0", "-1", "2147483648", "9223372036854775808", "1.5", "1e3"});
  expect_refused(kGenerateRun, engine, values);
  expect_refused("bench --model m", engine, values);
  expect_refused("bench --model m",
                 {{"--repeats", "a whole number from 1 to 1000"},
                  {"--prefill-tokens", "a whole number from 1 to 1048576"}},
                 values);
  expect_refused("inspect --model m", {engine[2]}, values);
  values = kNoNumbers;
  values.insert(values.end(), {"-1", "9223372036854775808", "1.5"});
  expect_refused(kGenerateRun, {{"--seed", "a whole number from 0 to 9223372036854775807"}},
                 values);
  expect_refused("bench --model m", {{"--decode-tokens", "a whole number from 0 to 1048576"}},
                 values);
}

// Any whole number of it has to be held against the model.
TEST(CommandLine, TheModelDecidesOnItsContext) {
  std::vector<std::string> values = kNoNumbers;
  values.insert(values.end(), {"1.5", "9223372036854775808"});
  expect_refused("inspect --model m",
                 {{"--max-model-len", "0 (the model's own) or from 2 to what the model allows"}},
                 values);
  for (const int64_t length : {int64_t{-1}, int64_t{1}, int64_t{3'000'000'000}}) {
    const auto options =
        parse<InspectOptions>("inspect --model m --max-model-len=" + std::to_string(length));
    EXPECT_EQ(options.engine.spec.max_model_len, length);
  }
}

TEST(CommandLine, BytesOfTheCacheAreBoundedByTheMachine) {
  for (const std::string value : {"1000000000000000", "4611686018427387904", "9223372036854775807",
                                  "9223372036854775808", "99999999999999999999", "-1"}) {
    EXPECT_THAT(error_of(kGenerateRun + " --kv-cache-memory-bytes=" + value),
                testing::MatchesRegex("--kv-cache-memory-bytes is " + value +
                                      "; it must be 0 .* or at most [0-9]+, the memory of this "
                                      "machine"));
  }
}

TEST(CommandLine, NumbersAreRefusedWithTheRangeThatHolds) {
  std::vector<std::string> values = kNoNumbers;
  values.insert(values.end(), {"-1", "1e7", "1e999"});
  expect_refused("bench --model m",
                 {{"--seconds", "a number from 0 to 1000000"},
                  {"--arrival-rate", "a number from 0.001 to 1000000"}},
                 values);
  expect_refused("diff a b", {{"--tolerance", "0 or more"}}, {"-1", "x", "", "nan", "inf"});
}

TEST(CommandLine, SamplingNumbersAreRefusedWithTheRangeThatHolds) {
  for (const std::string value : {"x", "", "0x10", "nan", "-2", "1.5", "9223372036854775807"}) {
    for (const auto& [option, rule] :
         std::vector<Wrong>{{"--n", "a whole number from 1 to 16384"},
                            {"--max-tokens", "a whole number from 1 to 2147483647"},
                            {"--min-tokens", "a whole number from 0 to 2147483647"},
                            {"--output-prefix-len", "a whole number from 0 to 2147483647"},
                            {"--logprobs", "a whole number from 0 to 2147483647"},
                            {"--prompt-logprobs", "a whole number from 0 to 2147483647"},
                            {"--top-k", "-1 or 0 (off) or a whole number up to 2147483647"}}) {
      const std::string message = error_with(kGenerateRun, option, value);
      EXPECT_TRUE(message.starts_with(option + " is ")) << message;
      EXPECT_TRUE(message.ends_with("; it must be " + rule)) << message;
    }
  }
  EXPECT_EQ(error_of(kGenerateRun + " --min-tokens 300"),
            "--min-tokens is 300; it must be at most --max-tokens, which is 256");
}

TEST(CommandLine, TokenIdsAreHeldAgainstTheModelAlone) {
  const auto options = parse<GenerateOptions>(
      kGenerateRun + " --stop-token-ids=5 --stop-token-ids=-1 --stop-token-ids=3000000000");
  for (const int32_t vocab_size : {4, 300}) {
    const Status status = check_token_ids(options.sampling, vocab_size);
    EXPECT_TRUE(is_option_error(status));
    EXPECT_EQ(message_of(status), fmt::format("--stop-token-ids is {}; it must be a token id from "
                                              "0 to {}",
                                              vocab_size == 4 ? 5 : -1, vocab_size - 1));
  }
  const auto good = parse<GenerateOptions>(kGenerateRun + " --stop-token-ids 5 6");
  EXPECT_TRUE(check_token_ids(good.sampling, 7).ok());
  for (const std::string value : {"x", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(error_with(kGenerateRun, "--stop-token-ids", value),
                testing::AllOf(HasSubstr("--stop-token-ids is "), HasSubstr(value),
                               HasSubstr("; it must be a token id")));
  }
}

// The model's own defaults may leave room that the command line's do not.
TEST(CommandLine, DefaultsOfTheModelAreWaitedFor) {
  const auto options =
      parse<GenerateOptions>(kGenerateRun + " --generation-config model --min-tokens 300");
  SamplingParams model = command_line_defaults();
  model.max_tokens = 1000;
  EXPECT_EQ(apply_sampling(model, options.sampling)->min_tokens, 300);
  const Status status = apply_sampling(command_line_defaults(), options.sampling).status();
  EXPECT_TRUE(is_option_error(status)) << status;
}

TEST(CommandLine, EmptyNamesAreRefusedByName) {
  const std::pair<std::string, std::string> options[] = {
      {"generate --model m --output o", "--prompts"},
      {"generate --model m --prompts p", "--output"},
      {"generate --prompts p --output o", "--model"},
      {"inspect", "--model"},
      {"score --model m --output o", "--input"},
      {"score --model m --input i", "--output"},
      {"bench --model m", "--json"},
      {"bench --model m", "--compare"},
      {"bench --model m", "--plot"},
      {"selftest", "--model"},
      {"diff --model m", "--input"},
      {"diff --model m", "--reference"},
      {"diff --model m --input i", "--dump"},
      {"diff --model m --prompt x", "--left"},
      {"diff --model m --left isa=scalar", "--prompt-token-ids"},
      {"score --model m --input i --output o", "--logprobs-mode"},
      {"generate --model m --prompt x", "--generation-config"},
      {"generate --model m --prompt x", "--log-level"}};
  for (const auto& [start, option] : options) {
    EXPECT_THAT(error_with(start, option, ""), testing::StartsWith(option)) << start;
  }
  EXPECT_THAT(message_of(parse_command_line({"diff", "a", ""}).status()), HasSubstr("file"));
}

}  // namespace
}  // namespace rlgen::cli
