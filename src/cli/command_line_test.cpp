#include "cli/command_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "base/cpu.h"
#include "cli/option_words.h"
#include "cli/sampling_options.h"

namespace rlgen::cli {
namespace {

using testing::HasSubstr;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

template <typename Options>
Options parse(const std::string& text) {
  const auto parsed = parse_command_line(words(text));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::get<Options>(std::get<Command>(*parsed));
}

std::string error_of(const std::string& text) {
  const auto parsed = parse_command_line(words(text));
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
  const std::string message = message_of(parsed.status());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

SamplingParams sampling_of(const std::string& options) {
  const auto generate =
      parse<GenerateOptions>("generate --model m --prompts p --output o " + options);
  const auto sampling = apply_sampling(command_line_defaults(), generate.sampling);
  EXPECT_TRUE(sampling.ok()) << sampling.status();
  return *sampling;
}

TEST(CommandLine, DefaultsAreTheDocumentedOnes) {
  const auto options = parse<GenerateOptions>("generate --model m --prompts p --output o");
  EXPECT_EQ(options.engine.spec.model, "m");
  EXPECT_EQ(options.engine.spec.isa, "auto");
  EXPECT_EQ(options.engine.spec.dtype, "auto");
  EXPECT_EQ(options.engine.spec.kv_cache_dtype, "auto");
  EXPECT_EQ(options.engine.spec.max_num_seqs, 64);
  EXPECT_EQ(options.engine.spec.max_num_batched_tokens, 512);
  EXPECT_EQ(options.engine.spec.max_model_len, 0);
  EXPECT_TRUE(options.engine.spec.enable_prefix_caching);
  EXPECT_FALSE(options.seed.has_value());
  SamplingParams expected;
  expected.max_tokens = 256;
  EXPECT_EQ(sampling_of(""), expected);
}

TEST(CommandLine, EngineOptions) {
  const auto options = parse<ScoreOptions>(
      "score --model m --input i --output o --threads 2 --isa avx2 --dtype bfloat16 "
      "--kv-cache-dtype float32 --kv-cache-memory-bytes 1000000 --block-size 32 --max-num-seqs 8 "
      "--max-num-batched-tokens 128 --max-model-len 99 --log-level debug --logprobs-mode raw "
      "--overwrite");
  EXPECT_EQ(options.engine.spec.num_threads, 2);
  EXPECT_EQ(options.engine.spec.isa, "avx2");
  EXPECT_EQ(options.engine.spec.dtype, "bfloat16");
  EXPECT_EQ(options.engine.spec.kv_cache_dtype, "float32");
  EXPECT_EQ(options.engine.spec.kv_cache_memory_bytes, 1000000);
  EXPECT_EQ(options.engine.spec.block_size, 32);
  EXPECT_EQ(options.engine.spec.max_num_seqs, 8);
  EXPECT_EQ(options.engine.spec.max_num_batched_tokens, 128);
  EXPECT_EQ(options.engine.spec.max_model_len, 99);
  EXPECT_EQ(options.engine.log_level, LogLevel::kDebug);
  EXPECT_EQ(options.logprobs_mode, LogprobsMode::kRaw);
  EXPECT_TRUE(options.overwrite);
}

TEST(CommandLine, PrefixCachingCanBeSwitchedOffAndOn) {
  const std::string line = "generate --model m --prompts p --output o ";
  const auto enabled = [&](const std::string& flags) {
    return parse<GenerateOptions>(line + flags).engine.spec.enable_prefix_caching;
  };
  EXPECT_FALSE(enabled("--no-enable-prefix-caching"));
  EXPECT_TRUE(enabled("--enable-prefix-caching"));
  EXPECT_FALSE(enabled("--enable-prefix-caching --no-enable-prefix-caching"));
}

TEST(CommandLine, EverySamplingOptionIsTaken) {
  const SamplingParams sampling = sampling_of(
      "--n 4 --temperature 0.5 --top-p 0.9 --top-k 20 --min-p 0.1 --repetition-penalty 1.1 "
      "--presence-penalty 0.2 --frequency-penalty 0.3 --max-tokens 9 --min-tokens 3 --stop ab cd "
      "--output-prefix-len 4 "
      "--stop-token-ids 5 6 --include-stop-str-in-output --ignore-eos --bad-words xy --logprobs 2 "
      "--prompt-logprobs 1 --logprobs-mode tempered");
  EXPECT_EQ(sampling.n, 4);
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_EQ(sampling.min_p, 0.1f);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.presence_penalty, 0.2f);
  EXPECT_EQ(sampling.frequency_penalty, 0.3f);
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.min_tokens, 3);
  EXPECT_EQ(sampling.output_prefix_len, 4);
  EXPECT_EQ(sampling.stop, (std::vector<std::string>{"ab", "cd"}));
  EXPECT_EQ(sampling.stop_token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_TRUE(sampling.include_stop_str_in_output);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.bad_words, std::vector<std::string>{"xy"});
  EXPECT_EQ(sampling.logprobs, 2);
  EXPECT_EQ(sampling.prompt_logprobs, 1);
  EXPECT_EQ(sampling.logprobs_mode, LogprobsMode::kTempered);
  EXPECT_EQ(sampling_of("--stop ab --stop cd").stop, sampling.stop);
  EXPECT_EQ(sampling_of("--top-k -1").top_k, -1);
}

TEST(CommandLine, NoSamplingOptionIsAcceptedAndIgnored) {
  const std::map<std::string_view, std::string> values = {{"--n", "2"},
                                                          {"--temperature", "0.5"},
                                                          {"--top-p", "0.5"},
                                                          {"--top-k", "5"},
                                                          {"--min-p", "0.5"},
                                                          {"--repetition-penalty", "2"},
                                                          {"--presence-penalty", "1"},
                                                          {"--frequency-penalty", "1"},
                                                          {"--max-tokens", "9"},
                                                          {"--min-tokens", "9"},
                                                          {"--output-prefix-len", "2"},
                                                          {"--stop", "x"},
                                                          {"--stop-token-ids", "7"},
                                                          {"--include-stop-str-in-output", ""},
                                                          {"--ignore-eos", ""},
                                                          {"--bad-words", "x"},
                                                          {"--logprobs", "3"},
                                                          {"--prompt-logprobs", "0"},
                                                          {"--logprobs-mode", "raw"}};
  for (const SamplingOption& option : sampling_options()) {
    ASSERT_TRUE(values.contains(option.name)) << option.name;
    const std::string name(option.name);
    EXPECT_NE(sampling_of(name + " " + values.at(option.name)), command_line_defaults()) << name;
  }
}

TEST(CommandLine, GenerateOptions) {
  const auto options = parse<GenerateOptions>(
      "generate --model m --prompts p --output o --resume --seed 7 --table "
      "--generation-config model");
  EXPECT_TRUE(options.resume);
  EXPECT_TRUE(options.table);
  EXPECT_EQ(options.seed, 7);
  EXPECT_EQ(options.generation_config, GenerationConfigUse::kModel);
  const auto one = parse<GenerateOptions>("generate --model m --prompt hello --chat");
  EXPECT_EQ(one.prompt, "hello");
  EXPECT_TRUE(one.chat);
}

TEST(CommandLine, OtherCommands) {
  EXPECT_TRUE(parse<InspectOptions>("inspect --model m --tensors --checksums --json").checksums);
  const auto bench = parse<BenchOptions>(
      "bench --model m --repeats 2 --prefill-tokens 64 --decode-tokens 8 --json out.json");
  EXPECT_EQ(bench.repeats, 2);
  EXPECT_EQ(bench.prefill_tokens, 64);
  EXPECT_EQ(bench.decode_tokens, 8);
  EXPECT_EQ(bench.json, "out.json");
  EXPECT_EQ(parse<SelftestOptions>("selftest --model m").engine.spec.model, "m");
  EXPECT_EQ(parse<SelftestOptions>("selftest").engine.spec.model, "");
  EXPECT_THAT(error_of("selftest --block-size 32"), HasSubstr("--model"));
}

TEST(CommandLine, HelpAndVersion) {
  EXPECT_THAT(std::get<PrintAndLeave>(*parse_command_line({"--help"})).text, HasSubstr("generate"));
  EXPECT_THAT(std::get<PrintAndLeave>(*parse_command_line({"generate", "--help"})).text,
              HasSubstr("--top-p"));
  EXPECT_THAT(std::get<PrintAndLeave>(*parse_command_line({"--version"})).text, HasSubstr("0.1"));
}

TEST(CommandLine, MistakesNameTheOptionAndTheValue) {
  const std::string start = "generate --model m --prompts p --output o ";
  EXPECT_THAT(error_of(start + "--temperature -1"),
              HasSubstr("--temperature is -1; it must be 0 (greedy)"));
  EXPECT_THAT(error_of(start + "--temperature nan"), HasSubstr("--temperature is \"nan\""));
  EXPECT_THAT(error_of(start + "--top-p 0"), HasSubstr("--top-p is 0"));
  EXPECT_THAT(error_of(start + "--top-p 1.01"), HasSubstr("1.01"));
  EXPECT_THAT(error_of(start + "--max-tokens 0"), HasSubstr("--max-tokens is 0; it must be"));
  EXPECT_THAT(error_of(start + "--max-tokens x"), HasSubstr("--max-tokens is \"x\""));
  EXPECT_THAT(error_of(start + "--n 0"), HasSubstr("--n is 0; it must be"));
  EXPECT_THAT(error_of(start + "--seed -4"), HasSubstr("--seed is -4"));
  EXPECT_THAT(error_of(start + "--logprobs-mode cooked"), HasSubstr("cooked"));
  EXPECT_THAT(error_of(start + "--min-tokens 300"), HasSubstr("--min-tokens"));
  EXPECT_THAT(error_of(start + "--generation-config auto"), HasSubstr("\"auto\""));
  EXPECT_THAT(error_of(start + "--log-level loud"), HasSubstr("\"loud\""));
  EXPECT_THAT(error_of(start + "--threads -2"), HasSubstr("--threads"));
  EXPECT_THAT(error_of(start + "--max-num-seqs 0"), HasSubstr("--max-num-seqs"));
  EXPECT_THAT(error_of(start + "--topp 1"), HasSubstr("--topp"));
  EXPECT_THAT(error_of(start + "--resume --overwrite"), HasSubstr("exclude"));
  EXPECT_THAT(error_of("generate --model m --prompt \xff"), HasSubstr("--prompt is not UTF-8"));
  EXPECT_THAT(error_of(start + "--stop a \xff"), HasSubstr("--stop is not UTF-8 at byte 0"));
  EXPECT_THAT(error_of(start + "--bad-words a\xc3"), HasSubstr("--bad-words is not UTF-8"));
}

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

TEST(CommandLine, AnOptionGivenTwiceIsRefusedUnlessItIsAList) {
  const std::string start = "generate --model m --prompts p --output o ";
  for (const std::string option : {"--top-k", "--temperature", "--n", "--seed", "--max-num-seqs"}) {
    EXPECT_THAT(error_of(start + option + " 1 " + option + " 2"), HasSubstr(option));
  }
  EXPECT_EQ(parse<GenerateOptions>(start + "--stop a --stop b").sampling[0].json, R"(["a","b"])");
}

TEST(CommandLine, WhatBelongsTogether) {
  EXPECT_THAT(error_of("generate --model m"), HasSubstr("--prompts"));
  EXPECT_THAT(error_of("generate --model m --prompt a --prompts b"), HasSubstr("exactly one"));
  EXPECT_THAT(error_of("generate --model m --prompts p"), HasSubstr("--output"));
  EXPECT_THAT(error_of("generate --model m --prompts p --output o --chat"), HasSubstr("--chat"));
  EXPECT_THAT(error_of("generate --model m --prompt p --output o"), HasSubstr("--output"));
  EXPECT_THAT(error_of("generate --prompts p --output o"), HasSubstr("--model"));
  EXPECT_THAT(message_of(parse_command_line({"generate", "--model", "m", "--prompt", ""}).status()),
              HasSubstr("--prompt is empty"));
  EXPECT_THAT(error_of("inspect --model m --checksums"), HasSubstr("--tensors"));
  EXPECT_THAT(error_of("score --model m --input i --output o --logprobs-mode x"),
              HasSubstr("--logprobs-mode"));
  EXPECT_THAT(error_of("dance"), HasSubstr("dance"));
  EXPECT_THAT(error_of(""), HasSubstr("ubcommand"));
}

}  // namespace
}  // namespace rlgen::cli
