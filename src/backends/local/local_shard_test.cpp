#include "backends/local/local_shard.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "backends/local/local_launcher.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "engine/weights/read_back.h"

namespace rlgen::backends {
namespace {

constexpr const char* kModel = "tests/fixtures/checkpoints/llama";

class Sink final : public EventSink {
 public:
  void on_events(EventBatch events) override {
    std::lock_guard lock(mutex_);
    for (SequenceEvent& event : events) {
      auto& tokens = tokens_[event.id];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish) finishes_[event.id] = *event.finish;
    }
    changed_.notify_all();
  }
  Finish wait(SequenceId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finishes_.contains(id); });
    return finishes_[id];
  }
  std::vector<TokenRecord> tokens(SequenceId id) {
    std::lock_guard lock(mutex_);
    return tokens_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SequenceId, std::vector<TokenRecord>> tokens_;
  std::map<SequenceId, Finish> finishes_;
};

ShardSpec spec_of(const std::string& model = kModel) {
  ShardSpec spec;
  spec.model = model;
  spec.num_threads = std::min(2, machine_cpus());
  return spec;
}

SequenceRequest request_of(SequenceId id) {
  SequenceRequest request;
  request.id = id;
  request.prompt_token_ids = {5, 6, 7, 8};
  request.sampling.seed = 3;
  request.sampling.max_tokens = 6;
  return request;
}

TEST(LocalShard, LoadsServesAndTells) {
  Sink sink;
  auto shard = LocalLauncher().start(spec_of(), sink);
  ASSERT_TRUE(shard.ok()) << shard.status();
  const ShardInfo info = *(*shard)->info();
  EXPECT_EQ(info.backend, "local");
  EXPECT_EQ(info.vocab_size, 160);
  EXPECT_EQ(info.max_model_len, 128);
  EXPECT_EQ(info.num_threads, spec_of().num_threads);
  EXPECT_EQ(info.version, 0);
  EXPECT_EQ(info.serial, 1u);
  EXPECT_EQ(info.kv_bytes_per_token, 2 * 2 * 2 * 16 * 4);
  EXPECT_EQ(info.kv_capacity_tokens, 64 * 128);
  EXPECT_EQ(info.numerics.kv_dtype, "float32");
  EXPECT_FALSE(info.numerics.model_digest.empty());
  EXPECT_TRUE((*shard)->health().serving);
  EXPECT_EQ((*shard)->capabilities().logprobs_modes.size(), 3u);

  ASSERT_TRUE((*shard)->submit({request_of(1)}).ok());
  EXPECT_EQ(sink.wait(1).reason, FinishReason::kLength);
  EXPECT_EQ(sink.tokens(1).size(), 6u);
  EXPECT_TRUE((*shard)->shutdown().ok());
  EXPECT_TRUE((*shard)->shutdown().ok());
  EXPECT_EQ((*shard)->submit({request_of(2)}).code(), absl::StatusCode::kUnavailable);
}

TEST(LocalShard, AnUpdateFlipsTheEngine) {
  Sink sink;
  auto shard = *LocalLauncher().start_local(spec_of(), sink);
  const auto model = *models::open_model(kModel, 0);
  UpdateSpec update{
      .update_id = "u", .version = 4, .serial = 9, .manifest = model.tensors.manifest()};
  ASSERT_TRUE(shard->begin(update).ok());
  for (const models::StoredTensor& tensor : model.tensors.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
    for (size_t i = 2; i < bytes.size(); i += 4) bytes[i] ^= std::byte(0x10);
    ASSERT_TRUE(shard->write("u", tensor.name, 0, bytes).ok());
  }
  ASSERT_TRUE(shard->submit({request_of(1)}).ok());
  sink.wait(1);
  ASSERT_TRUE(shard->prepare("u").ok());
  ASSERT_TRUE(shard->commit("u").ok());
  ASSERT_TRUE(shard->commit("u").ok());
  EXPECT_EQ(shard->info()->version, 4);
  EXPECT_EQ(shard->info()->serial, 9u);
  ASSERT_TRUE(shard->submit({request_of(2)}).ok());
  sink.wait(2);
  EXPECT_EQ(sink.tokens(1).front().version, 0);
  EXPECT_EQ(sink.tokens(2).front().version, 4);
  EXPECT_NE(sink.tokens(1).front().logprob, sink.tokens(2).front().logprob);
}

TEST(LocalShard, ChecksumsAreThoseOfTheFile) {
  for (const char* name :
       {"llama", "llama_fp16", "llama_tied", "llama_sharded", "qwen2", "qwen3"}) {
    const std::string path = std::string("tests/fixtures/checkpoints/") + name;
    const auto model = *models::open_model(path, 0);
    const auto served = served_checksums(model);
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ(served->size(), model.tensors.tensors().size());
    for (const ManifestEntry& entry : *served) {
      EXPECT_EQ(entry.digest, digest_of(model.tensors.find(entry.name)->bytes).hex()) << entry.name;
    }
  }
}

TEST(LocalShard, BadOptionsAreNamed) {
  Sink sink;
  const auto expect_error = [&](auto change, std::string_view text) {
    ShardSpec spec = spec_of();
    change(spec);
    const Status status = LocalLauncher().start(spec, sink).status();
    EXPECT_NE(message_of(status).find(text), std::string::npos) << text << " / " << status;
  };
  expect_error([](auto& s) { s.model = "/no/such/folder"; }, "/no/such/folder");
  expect_error([](auto& s) { s.num_threads = -4; }, "num_threads is -4");
  expect_error([](auto& s) { s.num_threads = machine_cpus() + 1; }, "num_threads is ");
  expect_error([](auto& s) { s.isa = "sse"; }, "isa");
  expect_error([](auto& s) { s.dtype = "int8"; }, "dtype is 'int8'");
  expect_error([](auto& s) { s.kv_cache_dtype = "int8"; }, "kv_cache_dtype is 'int8'");
  expect_error([](auto& s) { s.block_size = 8; }, "block_size is 8");
  expect_error([](auto& s) { s.max_num_seqs = 0; }, "max_num_seqs is 0");
  expect_error([](auto& s) { s.max_num_batched_tokens = 0; }, "max_num_batched_tokens is 0");
  expect_error([](auto& s) { s.kv_cache_memory_bytes = 100; }, "kv_cache_memory_bytes is 100");
  expect_error([](auto& s) { s.max_model_len = -1; }, "max_model_len is -1");
  expect_error([](auto& s) { s.max_model_len = 1; }, "max_model_len is 1, but");
}

TEST(LocalShard, ACheckSeesTheShardBeforeItsWeightsAreLoaded) {
  Sink sink;
  std::vector<ShardInfo> seen;
  LocalLauncher launcher({}, nullptr, [&](const ShardInfo& info) -> Status {
    seen.push_back(info);
    return seen.size() == 1 ? absl::OkStatus() : absl::InvalidArgumentError("not this one");
  });
  const auto shard = launcher.start(spec_of(), sink);
  ASSERT_TRUE(shard.ok()) << shard.status();
  const ShardInfo info = *(*shard)->info();
  EXPECT_EQ(seen.at(0).numerics, info.numerics);
  EXPECT_EQ(seen.at(0).vocab_size, info.vocab_size);
  EXPECT_EQ(seen.at(0).kv_capacity_tokens, info.kv_capacity_tokens);
  EXPECT_EQ(message_of(launcher.start(spec_of(), sink).status()), "not this one");
}

TEST(LocalShard, WeightsInAnotherTypeAreAnotherModel) {
  Sink sink;
  const auto info_of = [&](const std::string& dtype) {
    ShardSpec spec = spec_of();
    spec.dtype = dtype;
    return *(*LocalLauncher().start(spec, sink))->info();
  };
  const ShardInfo same = info_of("float32");
  const ShardInfo half = info_of("bfloat16");
  EXPECT_EQ(same.numerics, info_of("auto").numerics);
  EXPECT_NE(half.numerics.model_digest, same.numerics.model_digest);
  EXPECT_LT(half.weight_bytes, same.weight_bytes);
}

TEST(LocalShard, TheTextSideGivesVocabularyAndWatchers) {
  Sink sink;
  std::string asked;
  LocalLauncher launcher([&](const std::string& folder) -> StatusOr<TextSide> {
    asked = folder;
    return TextSide{{}, 100};
  });
  auto shard = *launcher.start(spec_of(), sink);
  EXPECT_EQ(asked, kModel);
  EXPECT_EQ(shard->info()->vocab_size, 100);
  SequenceRequest stops = request_of(1);
  stops.sampling.stop = {"x"};
  SequenceRequest outside = request_of(2);
  outside.prompt_token_ids = {100};
  ASSERT_TRUE(shard->submit({stops, outside}).ok());
  EXPECT_EQ(sink.wait(1).error.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(sink.wait(2).error.code(), absl::StatusCode::kInvalidArgument);
  LocalLauncher failing([](const std::string&) -> StatusOr<TextSide> {
    return absl::InvalidArgumentError("tokenizer.json: broken");
  });
  EXPECT_EQ(message_of(failing.start(spec_of(), sink).status()), "tokenizer.json: broken");
}

}  // namespace
}  // namespace rlgen::backends
