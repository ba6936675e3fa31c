#include "backends/local/shard_options.h"

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "contract/spec_error.h"

namespace rlgen::backends {
namespace {

bool mentions(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string::npos;
}

models::DecoderSpec small_model() {
  models::DecoderSpec model;
  model.layers = 2;
  model.kv_heads = 2;
  model.head_dim = 8;
  return model;
}

TEST(ShardOptions, ThreadsAndIsa) {
  EXPECT_EQ(choose_machine({})->num_threads, usable_cpus());
  EXPECT_EQ(choose_machine({.num_threads = 3})->num_threads, 3);
  EXPECT_EQ(choose_machine({.isa = "scalar"})->kernels->isa, kernels::Isa::kScalar);
  EXPECT_TRUE(
      mentions(choose_machine({.num_threads = -1}).status(), "num_threads is -1; use 1 to 1024"));
  EXPECT_TRUE(mentions(choose_machine({.num_threads = 5000}).status(), "num_threads is 5000"));
  const Status isa = choose_machine({.isa = "avx9"}).status();
  EXPECT_TRUE(mentions(isa, "isa") && mentions(isa, "avx9") && mentions(isa, "scalar")) << isa;
  EXPECT_EQ(spec_field_of(isa), "isa");
  EXPECT_EQ(spec_field_of(choose_machine({.num_threads = 5000}).status()), "num_threads");
}

TEST(ShardOptions, TypeOfTheWeights) {
  EXPECT_EQ(*choose_dtype({}), std::nullopt);
  EXPECT_EQ(*choose_dtype({.dtype = "float16"}), DType::kFloat16);
  for (const std::string name : {"int8", "", "fp32"}) {
    const Status status = choose_dtype({.dtype = name}).status();
    EXPECT_TRUE(mentions(status, "dtype is '" + name + "'")) << status;
    EXPECT_EQ(spec_field_of(status), "dtype");
  }
}

TEST(ShardOptions, KvLayoutFollowsModelAndOptions) {
  const auto layout =
      choose_kv_layout({.kv_cache_dtype = "bfloat16", .block_size = 32}, small_model());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->dtype, DType::kBFloat16);
  EXPECT_EQ(layout->block_stride(), size_t(2 * 2 * 32 * (8 + 8) * 2));
  EXPECT_EQ(choose_kv_layout({}, small_model())->dtype, DType::kFloat32);
  EXPECT_TRUE(mentions(choose_kv_layout({.kv_cache_dtype = "fp8"}, small_model()).status(),
                       "kv_cache_dtype is 'fp8'"));
  EXPECT_TRUE(
      mentions(choose_kv_layout({.block_size = 24}, small_model()).status(), "block_size is 24"));
}

TEST(ShardOptions, KvBytesAreBoundedByNeedAndByFreeMemory) {
  const kernels::KvLayout layout = *choose_kv_layout({}, small_model());
  const auto block = int64_t(layout.block_stride());
  const ShardSpec four{.max_num_seqs = 4};
  EXPECT_EQ(*choose_kv_bytes(four, layout, 100, int64_t{1} << 40), 4 * 7 * block);
  EXPECT_EQ(*choose_kv_bytes(four, layout, 100, 20 * block + 5), 10 * block);
  const Status poor = choose_kv_bytes(four, layout, 100, 13 * block).status();
  EXPECT_EQ(poor.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(mentions(poor, std::to_string(7 * block))) << poor;
  EXPECT_EQ(*choose_kv_bytes({.kv_cache_memory_bytes = 9 * block}, layout, 100, 0), 9 * block);
  const Status small = choose_kv_bytes({.kv_cache_memory_bytes = 999}, layout, 100, 0).status();
  EXPECT_TRUE(mentions(small, "kv_cache_memory_bytes is 999")) << small;
  EXPECT_EQ(spec_field_of(small), "kv_cache_memory_bytes");
  EXPECT_EQ(spec_field_of(poor), "");
  EXPECT_TRUE(
      mentions(choose_kv_bytes({.kv_cache_memory_bytes = -2}, layout, 100, 0).status(), "is -2"));
}

}  // namespace
}  // namespace rlgen::backends
