#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/command_line.h"

namespace rlgen::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StatusOr<Parsed> parse_diff(const std::string& text) {
  std::istringstream stream("diff " + text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return parse_command_line(words);
}

DiffOptions options_of(const std::string& text) {
  const auto parsed = parse_diff(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::get<DiffOptions>(std::get<Command>(*parsed));
}

std::string diff_error_of(const std::string& text) {
  const Status status = parse_diff(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return message_of(status);
}

TEST(DiffOptions, SidesStartFromTheCommonOptions) {
  const auto options = options_of(
      "--model m --prompt-token-ids 3,4 --isa avx2 --threads 1 "
      "--left isa=scalar,max-num-batched-tokens=7 --left block-size=32 "
      "--right model=other,kv-cache-dtype=bfloat16,enable-prefix-caching=true");
  EXPECT_THAT(options.prompt_token_ids, ElementsAre(3, 4));
  EXPECT_EQ(options.left.spec.model, "m");
  EXPECT_EQ(options.left.spec.isa, "scalar");
  EXPECT_EQ(options.left.spec.num_threads, 1);
  EXPECT_EQ(options.left.spec.max_num_batched_tokens, 7);
  EXPECT_EQ(options.left.spec.block_size, 32);
  EXPECT_EQ(options.left.spec.kv_cache_dtype, "auto");
  EXPECT_FALSE(options.left.spec.enable_prefix_caching);
  EXPECT_EQ(options.left_settings, "isa=scalar,max-num-batched-tokens=7,block-size=32");
  EXPECT_EQ(options.right.spec.model, "other");
  EXPECT_EQ(options.right.spec.isa, "avx2");
  EXPECT_EQ(options.right.spec.max_num_batched_tokens, 512);
  EXPECT_EQ(options.right.spec.kv_cache_dtype, "bfloat16");
  EXPECT_TRUE(options.right.spec.enable_prefix_caching);
  EXPECT_EQ(options.tolerance, 0.0);
  EXPECT_FALSE(options.only_dump());
}

TEST(DiffOptions, FilesOfActivations) {
  const auto options =
      options_of("--model m --reference r --dump d --overwrite --tolerance 1e-4 --json");
  EXPECT_EQ(options.reference, "r");
  EXPECT_EQ(options.dump, "d");
  EXPECT_TRUE(options.overwrite);
  EXPECT_EQ(options.tolerance, 1e-4);
  EXPECT_TRUE(options.json);
  EXPECT_TRUE(options_of("--model m --input i --dump d").only_dump());
  EXPECT_EQ(options_of("--model m --prompt text --dump d").prompt, "text");
}

TEST(DiffOptions, TwoRolloutFilesNeedNoModel) {
  const auto options = options_of("a.jsonl b.jsonl --tolerance 0.5 --json");
  EXPECT_THAT(options.rollouts, ElementsAre("a.jsonl", "b.jsonl"));
  EXPECT_THAT(diff_error_of("a.jsonl"), HasSubstr("one rollout file"));
  EXPECT_THAT(diff_error_of("a b --model m"), HasSubstr("--model does not belong"));
  EXPECT_THAT(diff_error_of("a b --left isa=scalar"), HasSubstr("--left does not belong"));
  EXPECT_THAT(diff_error_of("a b --threads 1"), HasSubstr("--threads does not belong"));
  diff_error_of("a b c");
}

TEST(DiffOptions, MistakesAreNamed) {
  EXPECT_THAT(diff_error_of(""), HasSubstr("--model is required"));
  EXPECT_THAT(diff_error_of("--model m --left isa=scalar"), HasSubstr("exactly one of"));
  EXPECT_THAT(diff_error_of("--model m --prompt x --input i --left isa=scalar"),
              HasSubstr("exactly one of"));
  EXPECT_THAT(diff_error_of("--model m --prompt x"), HasSubstr("nothing to compare"));
  EXPECT_THAT(diff_error_of("--model m --prompt x --dump d --json"), HasSubstr("--json"));
  EXPECT_THAT(diff_error_of("--model m --prompt x --left isa=scalar --overwrite"),
              HasSubstr("--overwrite belongs to --dump"));
  EXPECT_THAT(diff_error_of("--model m --reference r --right isa=scalar"),
              HasSubstr("--reference"));
  for (const char* ids : {"1,,2", "a", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(diff_error_of("--model m --left isa=scalar --prompt-token-ids=" + std::string(ids)),
                HasSubstr("--prompt-token-ids has "));
  }
  for (const char* tolerance : {"-1", "nan", "inf", "x"}) {
    EXPECT_THAT(diff_error_of("--model m --prompt x --left isa=scalar --tolerance=" +
                              std::string(tolerance)),
                HasSubstr("--tolerance"));
  }
}

TEST(DiffOptions, SettingsAreEngineOptions) {
  for (const char* settings : {"isa", "=scalar", "isa=scalar,", "--isa=scalar"}) {
    EXPECT_THAT(diff_error_of("--model m --prompt x --right=" + std::string(settings)),
                HasSubstr("--right has \""));
  }
  for (const char* settings : {"isaa=scalar", "threads=x", "block-size=0", "help=1", "left=isa"}) {
    EXPECT_THAT(diff_error_of("--model m --prompt x --left " + std::string(settings)),
                HasSubstr("--left: "));
  }
}

}  // namespace
}  // namespace rlgen::cli
