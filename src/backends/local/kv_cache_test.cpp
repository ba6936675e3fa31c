#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "backends/local/free_memory.h"
#include "backends/local/local_launcher.h"
#include "backends/local/shard_options.h"
#include "contract/limits.h"

namespace rlgen::backends {
namespace {

constexpr int64_t kFloatBytes = 2 * 2 * 2 * 16 * 4;  // of a token: layers, heads, K and V, size

// Waits for the end of one sequence.
class LogprobSink final : public EventSink {
 public:
  void on_events(EventBatch events) override {
    for (SequenceEvent& event : events) {
      for (const TokenRecord& record : event.tokens) logprobs_.push_back(record.logprob);
      if (event.finish) done_.set_value(logprobs_);
    }
  }
  std::vector<float> wait() { return done_.get_future().get(); }

 private:
  std::vector<float> logprobs_;
  std::promise<std::vector<float>> done_;
};

ShardSpec spec_with_kv(const std::string& kv_dtype) {
  ShardSpec spec;
  spec.model = "tests/fixtures/checkpoints/llama";
  spec.num_threads = 1;
  spec.kv_cache_dtype = kv_dtype;
  return spec;
}

std::vector<float> logprobs_with(const std::string& kv_dtype) {
  LogprobSink sink;
  const auto shard = *LocalLauncher().start(spec_with_kv(kv_dtype), sink);
  SequenceRequest request;
  request.id = 1;
  for (int32_t i = 0; i < 50; ++i) request.prompt_token_ids.push_back(3 + i * 7 % 150);
  request.sampling.seed = 3;
  request.sampling.max_tokens = 20;
  request.sampling.ignore_eos = true;
  EXPECT_TRUE(shard->submit({request}).ok());
  return sink.wait();
}

ShardInfo info_of(const ShardSpec& spec) {
  LogprobSink sink;
  return *(*LocalLauncher().start(spec, sink))->info();
}

TEST(KvCache, EachTypeIsWhatItSays) {
  const struct {
    const char* option;
    const char* name;
    int64_t bytes;
  } types[] = {{"auto", "float32", kFloatBytes},
               {"float32", "float32", kFloatBytes},
               {"bfloat16", "bfloat16", kFloatBytes / 2},
               {"float16", "float16", kFloatBytes / 2}};
  for (const auto& type : types) {
    const ShardInfo info = info_of(spec_with_kv(type.option));
    EXPECT_EQ(info.numerics.kv_dtype, type.name);
    EXPECT_EQ(info.kv_bytes_per_token, type.bytes) << type.option;
  }
  const std::vector<float> whole = logprobs_with("float32");
  EXPECT_EQ(whole.size(), 20u);
  EXPECT_EQ(logprobs_with("auto"), whole);
  for (const char* half : {"bfloat16", "float16"}) {
    const std::vector<float> values = logprobs_with(half);
    ASSERT_EQ(values.size(), whole.size());
    EXPECT_NE(values, whole) << half;
    EXPECT_NEAR(values[0], whole[0], 0.1) << half;
  }
  EXPECT_NE(logprobs_with("bfloat16"), logprobs_with("float16"));
}

TEST(KvCache, MemoryIsTakenAsGivenInWholeBlocks) {
  ShardSpec spec = spec_with_kv("auto");
  const int64_t block = kFloatBytes * spec.block_size;
  spec.kv_cache_memory_bytes = 11 * block + 5;
  EXPECT_EQ(info_of(spec).kv_capacity_tokens, 11 * spec.block_size);
  spec.kv_cache_dtype = "bfloat16";
  EXPECT_EQ(info_of(spec).kv_capacity_tokens, 22 * spec.block_size);
}

// Without a number: what max_num_seqs sequences may need, and at most half of what is free.
TEST(KvCache, MemoryIsChosenFromNeedAndFreeMemory) {
  ShardSpec spec = spec_with_kv("auto");
  spec.max_num_seqs = 3;
  EXPECT_EQ(info_of(spec).kv_capacity_tokens, 3 * 128);
  spec.max_num_seqs = 1 << 20;
  const int64_t most = int64_t(double(*free_memory()) * (kMemoryFraction + 0.1));
  const int64_t wanted = int64_t(spec.max_num_seqs) * 128 * kFloatBytes;
  if (wanted > most) {
    const ShardInfo info = info_of(spec);
    EXPECT_LE(info.kv_capacity_tokens * kFloatBytes, most);
    EXPECT_GT(info.kv_capacity_tokens * kFloatBytes, most / 4);
  }
}

}  // namespace
}  // namespace rlgen::backends
