#include "cli/option_words.h"

#include <absl/strings/cord.h>
#include <gtest/gtest.h>

#include "cli/sampling_options.h"
#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

std::string reworded(const std::string& message, std::string_view field = "") {
  Status error = absl::InvalidArgumentError(message);
  if (!field.empty()) error = spec_error(field, error);
  EXPECT_EQ(is_option_error(error), !field.empty());
  return message_of(in_option_words(error));
}

TEST(OptionWords, FieldsBecomeOptions) {
  EXPECT_EQ(reworded("num_threads is 5; use 1 to 2", "num_threads"), "--threads is 5; use 1 to 2");
  EXPECT_EQ(
      reworded("kv_cache_memory_fraction is 0.5; set max_model_len, or kv_cache_memory_bytes"),
      "--kv-cache-memory-fraction is 0.5; set --max-model-len, or --kv-cache-memory-bytes");
  EXPECT_EQ(
      reworded("kv_cache_memory_bytes is 9; one sequence of max_model_len 128 needs 99 bytes"),
      "--kv-cache-memory-bytes is 9; one sequence of --max-model-len 128 needs 99 bytes");
  EXPECT_EQ(reworded("block_size, block_size and max_num_seqs"),
            "--block-size, --block-size and --max-num-seqs");
}

TEST(OptionWords, OtherNamesStay) {
  for (const std::string text :
       {"cannot open /data/block_size/config.json", "my_block_size", "block_sizes",
        "key \"max_model_len\"", "", "isa 'x' is unknown", "raise --max-model-len"}) {
    EXPECT_EQ(reworded(text), text);
  }
}

TEST(OptionWords, CommonWordsOnlyWhereTheyBeginTheirOwnError) {
  EXPECT_EQ(reworded("isa 'x' is unknown", "isa"), "--isa 'x' is unknown");
  EXPECT_EQ(reworded("dtype is 'x'", "dtype"), "--dtype is 'x'");
  EXPECT_EQ(reworded("tensor t has dtype I8"), "tensor t has dtype I8");
}

TEST(OptionWords, WhatTheLineSetKeepsItsName) {
  const std::vector<GivenSampling> given = {{"--min-tokens", "min_tokens", "9"},
                                            {"--max-tokens", "max_tokens", "9"},
                                            {"--n", "n", "2"},
                                            {"--stop", "stop", "[]"},
                                            {"--bad-reworded", "bad_words", "[]"}};
  const auto said = [&](const std::string& message, const std::vector<std::string>& own) {
    return message_of(in_sampling_words(absl::InvalidArgumentError(message), given, own));
  };
  const std::string order = "min_tokens is 9; it must be at most max_tokens, which is 5";
  EXPECT_EQ(said(order, {}), "--min-tokens is 9; it must be at most --max-tokens, which is 5");
  EXPECT_EQ(said(order, {"max_tokens"}),
            "--min-tokens is 9; it must be at most max_tokens, which is 5");
  EXPECT_EQ(said(order, {"min_tokens", "max_tokens"}), order);
  EXPECT_EQ(said("top_k is -7", {}), "top_k is -7") << "no option set it";
  EXPECT_EQ(said("n is 5; ask for n", {}), "--n is 5; ask for n");
  EXPECT_EQ(said("nothing to stop, n or no n", {}), "nothing to stop, n or no n");
  EXPECT_EQ(said("bad_words_ids bans every id", {"prompt"}), "--bad-reworded bans every id");
  for (const char* key : {"bad_words", "bad_words_ids"}) {
    EXPECT_EQ(said("bad_words_ids bans every id", {key}), "bad_words_ids bans every id");
  }
}

// The code of a line's error travels beside its message.
TEST(OptionWords, WhatIsBesideTheMessageStays) {
  Status error = absl::InvalidArgumentError("min_tokens is 9");
  error.SetPayload("code", absl::Cord("special"));
  const Status said = in_sampling_words(error, {{"--min-tokens", "min_tokens", "9"}}, {});
  EXPECT_EQ(message_of(said), "--min-tokens is 9");
  EXPECT_EQ(said.GetPayload("code"), absl::Cord("special"));
  EXPECT_TRUE(in_sampling_words(absl::OkStatus(), {}, {}).ok());
}

}  // namespace
}  // namespace rlgen::cli
