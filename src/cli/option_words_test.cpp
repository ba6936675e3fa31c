#include "cli/option_words.h"

#include <gtest/gtest.h>

#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

std::string words(const std::string& message, std::string_view field = "") {
  Status error = absl::InvalidArgumentError(message);
  if (!field.empty()) error = spec_error(field, error);
  EXPECT_EQ(is_option_error(error), !field.empty());
  return message_of(in_option_words(error));
}

TEST(OptionWords, FieldsBecomeOptions) {
  EXPECT_EQ(words("num_threads is 5; use 1 to 2", "num_threads"), "--threads is 5; use 1 to 2");
  EXPECT_EQ(words("kv_cache_memory_bytes is 9; one sequence of max_model_len 128 needs 99 bytes"),
            "--kv-cache-memory-bytes is 9; one sequence of --max-model-len 128 needs 99 bytes");
  EXPECT_EQ(words("block_size, block_size and max_num_seqs"),
            "--block-size, --block-size and --max-num-seqs");
}

TEST(OptionWords, OtherNamesStay) {
  for (const std::string text :
       {"cannot open /data/block_size/config.json", "my_block_size", "block_sizes",
        "key \"max_model_len\"", "", "isa 'x' is unknown", "raise --max-model-len"}) {
    EXPECT_EQ(words(text), text);
  }
}

TEST(OptionWords, CommonWordsOnlyWhereTheyBeginTheirOwnError) {
  EXPECT_EQ(words("isa 'x' is unknown", "isa"), "--isa 'x' is unknown");
  EXPECT_EQ(words("dtype is 'x'", "dtype"), "--dtype is 'x'");
  EXPECT_EQ(words("tensor t has dtype I8"), "tensor t has dtype I8");
}

}  // namespace
}  // namespace rlgen::cli
