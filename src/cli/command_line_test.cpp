#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "cli/sampling_options.h"
#include "cli/test_command_line.h"

namespace rlgen::cli {
namespace {

using test::error_of;
using test::parse;
using testing::HasSubstr;

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

TEST(CommandLine, RoutesAndHowTheyAreWritten) {
  const auto plain = parse<ScoreOptions>("score --model m --input i --output o");
  EXPECT_FALSE(plain.engine.spec.enable_return_routed_experts);
  EXPECT_FALSE(plain.replay_routes);
  const auto generate = parse<GenerateOptions>(
      "generate --model m --prompts p --output o --enable-return-routed-experts "
      "--routed-experts-layers all --routed-experts-format list --routed-experts-prompt-start 3");
  EXPECT_TRUE(generate.engine.spec.enable_return_routed_experts);
  EXPECT_EQ(generate.engine.spec.routed_experts_layers, "all");
  EXPECT_EQ(generate.routes_format, generation::RouteFormat::kList);
  EXPECT_EQ(apply_sampling({}, generate.sampling)->routed_experts_prompt_start, 3);
  const auto score =
      parse<ScoreOptions>("score --model m --input i --output o --replay-routed-experts");
  EXPECT_TRUE(score.replay_routes);
  EXPECT_EQ(score.routes_format, generation::RouteFormat::kBase64);
  EXPECT_THAT(error_of("score --model m --input i --output o --enable-return-routed-experts "
                       "--routed-experts-format json"),
              HasSubstr("must be base64 or list"));
  EXPECT_THAT(error_of("score --model m --input i --output o --routed-experts-format list"),
              HasSubstr("belongs to --enable-return-routed-experts"));
  EXPECT_THAT(error_of("generate --model m --prompt hi --enable-return-routed-experts"),
              HasSubstr("--enable-return-routed-experts belongs to --output"));
}

TEST(CommandLine, EngineOptions) {
  const auto options = parse<ScoreOptions>(
      "score --model m --input i --output o --threads 2 --isa avx2 --dtype bfloat16 "
      "--kv-cache-dtype float32 --kv-cache-memory-bytes 1000000 --kv-cache-memory-fraction 0.25 "
      "--block-size 32 --max-num-seqs 8 "
      "--max-num-batched-tokens 128 --max-model-len 99 --log-level debug --logprobs-mode raw "
      "--overwrite");
  EXPECT_EQ(options.engine.spec.num_threads, 2);
  EXPECT_EQ(options.engine.spec.isa, "avx2");
  EXPECT_EQ(options.engine.spec.dtype, "bfloat16");
  EXPECT_EQ(options.engine.spec.kv_cache_dtype, "float32");
  EXPECT_EQ(options.engine.spec.kv_cache_memory_bytes, 1000000);
  EXPECT_EQ(options.engine.spec.kv_cache_memory_fraction, 0.25);
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
                                                          {"--routed-experts-prompt-start", "3"},
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
