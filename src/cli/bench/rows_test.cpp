#include "cli/bench/rows.h"

#include <gmock/gmock.h>

#include <set>

#include "cli/bench/context.h"

namespace rlgen::cli {
namespace {

std::vector<std::string> names_of(const std::vector<std::string>& patterns) {
  const auto rows = choose_rows(patterns);
  std::vector<std::string> names;
  for (const RowSpec& row : rows.value()) names.push_back(row.name);
  return names;
}

RowSpec row_named(const std::string& name) { return choose_rows({name}).value().front(); }

TEST(BenchRows, NamesAreDifferent) {
  std::set<std::string> names;
  for (const RowSpec& row : all_rows()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  EXPECT_EQ(names_of({}).size(), names.size());
}

TEST(BenchRows, PatternsChooseInTheOrderOfTheTable) {
  EXPECT_THAT(names_of({"decode/64", "prefill/?"}),
              testing::ElementsAre("prefill/1", "prefill/8", "decode/64"));
  EXPECT_THAT(
      names_of({"sampling/*-152k"}),
      testing::ElementsAre("sampling/greedy-152k", "sampling/plain-152k", "sampling/top-p-152k"));
  EXPECT_THAT(names_of({"scheduler/*"}),
              testing::ElementsAre("scheduler/256", "scheduler/256+10k"));
  EXPECT_THAT(names_of({"decode/1", "decode/*"}).size(), 8);
}

TEST(BenchRows, APatternWithoutRowsIsAnError) {
  const auto rows = choose_rows({"decode/1", "decode/3"});
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(std::string(rows.status().message()), testing::HasSubstr("\"decode/3\""));
  EXPECT_THAT(std::string(rows.status().message()), testing::HasSubstr("attention/32k"));
}

ShardInfo info_of(int32_t max_model_len, int64_t kv_capacity_tokens) {
  ShardInfo info;
  info.max_model_len = max_model_len;
  info.kv_capacity_tokens = kv_capacity_tokens;
  return info;
}

TEST(BenchRows, WhatDoesNotFitHasAReason) {
  const models::DecoderSpec model;
  BenchOptions options;
  options.engine.spec.max_num_seqs = 64;
  const ShardInfo roomy = info_of(8192, 1'000'000);
  EXPECT_EQ(why_not(row_named("attention/8k"), options, roomy, model), "");
  EXPECT_THAT(why_not(row_named("attention/16k"), options, roomy, model),
              testing::HasSubstr("8192"));
  EXPECT_EQ(why_not(row_named("decode/64"), options, roomy, model), "");
  EXPECT_THAT(why_not(row_named("decode/128"), options, roomy, model),
              testing::HasSubstr("--max-num-seqs is 64"));
  EXPECT_EQ(why_not(row_named("prefill/2048"), options, info_of(2049, 10'000), model), "");
  EXPECT_THAT(why_not(row_named("prefill/2048"), options, info_of(2048, 10'000), model),
              testing::HasSubstr("needs 2049 positions"));
  EXPECT_THAT(why_not(row_named("decode/64"), options, info_of(8192, 64 * 144 - 1), model),
              testing::HasSubstr("--kv-cache-memory-bytes"));
  EXPECT_EQ(why_not(row_named("sampling/plain"), options, info_of(1, 1), model), "");
}

TEST(BenchRows, NothingIsRecordedWithoutExperts) {
  BenchOptions options;
  options.engine.spec.max_num_seqs = 64;
  const ShardInfo roomy = info_of(8192, 1'000'000);
  models::DecoderSpec model;
  EXPECT_EQ(why_not(row_named("recording/decode-1"), options, roomy, model),
            "the model has no experts");
  model.experts = {.count = 8, .top_k = 2};
  model.layer.push_back({.sparse = true});
  EXPECT_EQ(why_not(row_named("recording/decode-1"), options, roomy, model), "");
  EXPECT_THAT(why_not(row_named("recording/prefill"), options, info_of(1024, 1'000'000), model),
              testing::HasSubstr("needs 1025 positions"));
}

TEST(BenchRows, OptionsReplaceTheLengthsOfARow) {
  BenchOptions options;
  EXPECT_EQ(new_tokens(row_named("decode/1"), options), 64);
  EXPECT_EQ(new_tokens(row_named("decode/128"), options), 16);
  EXPECT_EQ(new_tokens(row_named("recording/decode-1"), options), 32);
  EXPECT_EQ(new_tokens(row_named("recording/prefill"), options), 1);
  options.decode_tokens = 5;
  options.prefill_tokens = 7;
  EXPECT_EQ(new_tokens(row_named("decode/128"), options), 5);
  EXPECT_EQ(new_tokens(row_named("prefill/8"), options), 1);
  EXPECT_EQ(prompt_tokens(row_named("prefill/8"), options), 7);
  EXPECT_EQ(prompt_tokens(row_named("prefill/2048"), options), 2048);
}

TEST(BenchRows, SequencesDecodeUntilThePromptsThatAreNotCachedAreRead) {
  BenchOptions options;
  options.engine.spec.max_num_batched_tokens = 512;
  options.engine.spec.enable_prefix_caching = false;
  EXPECT_EQ(new_tokens(row_named("decode/128"), options), 16 + 128 * 128 / (512 - 128) + 1);
  options.engine.spec.max_num_batched_tokens = 64;
  EXPECT_EQ(new_tokens(row_named("decode/128"), options), 16 + 128 * 128 + 1);
  options.decode_tokens = 5;
  EXPECT_EQ(new_tokens(row_named("decode/128"), options), 5);
}

}  // namespace
}  // namespace rlgen::cli
