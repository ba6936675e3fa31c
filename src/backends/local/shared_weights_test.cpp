#include "backends/local/shared_weights.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <map>
#include <thread>

#include "backends/local/local_launcher.h"

namespace rlgen::backends {
namespace {

constexpr const char* kFolder = "tests/fixtures/checkpoints/llama";

// Keeps what every sequence gave.
class Keeper final : public EventSink {
 public:
  void on_events(EventBatch events) override {
    const std::lock_guard lock(mutex_);
    for (SequenceEvent& event : events) {
      auto& [tokens, finish] = outcomes_[event.id];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish) finish = event.finish;
    }
    changed_.notify_all();
  }
  std::vector<TokenRecord> wait(SequenceId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcomes_[id].second.has_value(); });
    return outcomes_[id].first;
  }
  void wait_for_tokens(SequenceId id, size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcomes_[id].first.size() >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SequenceId, std::pair<std::vector<TokenRecord>, std::optional<Finish>>> outcomes_;
};

class SharedWeightsTest : public testing::Test {
 protected:
  void start(int count) {
    ShardSpec spec;
    spec.model = kFolder;
    spec.num_threads = 1;
    spec.kv_cache_memory_bytes = 1 << 20;
    for (int i = 0; i < count; ++i) {
      auto shard = launcher_.start_local(spec, sink_);
      ASSERT_TRUE(shard.ok()) << shard.status();
      shards_.push_back(*std::move(shard));
    }
  }

  // The checkpoint with every float a little off, committed through shard `by`.
  Status update(size_t by, WeightVersion version, KvPolicy policy = KvPolicy::kRecompute) {
    const auto model = *models::open_model(kFolder, 0);
    const UpdateSpec spec{.update_id = "u" + std::to_string(version),
                          .version = version,
                          .serial = WeightSerial(version) + 10,
                          .manifest = model.tensors.manifest(),
                          .base = {},
                          .kv_policy = policy};
    LocalShard& shard = *shards_[by];
    RLGEN_RETURN_IF_ERROR(shard.begin(spec));
    for (const models::StoredTensor& tensor : model.tensors.tensors()) {
      std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
      for (size_t i = 2; i < bytes.size(); i += 4) bytes[i] ^= std::byte(version % 8);
      RLGEN_RETURN_IF_ERROR(shard.write(spec.update_id, tensor.name, 0, bytes));
    }
    RLGEN_RETURN_IF_ERROR(shard.prepare(spec.update_id));
    return shard.commit(spec.update_id);
  }

  static SequenceRequest request_for(SequenceId id, int32_t tokens) {
    SequenceRequest request{.id = id, .prompt_token_ids = {5, 6, 7}};
    request.sampling.seed = 3;
    request.sampling.max_tokens = tokens;
    request.sampling.ignore_eos = true;
    return request;
  }

  std::vector<TokenRecord> generate(size_t shard, SequenceId id, int32_t tokens = 8) {
    EXPECT_TRUE(shards_[shard]->submit({request_for(id, tokens)}).ok());
    return sink_.wait(id);
  }

  Keeper sink_;
  LocalLauncher launcher_;
  std::vector<std::unique_ptr<LocalShard>> shards_;
};

TEST_F(SharedWeightsTest, AnUpdateOfOneIsAnUpdateOfAll_FB104) {
  start(3);
  const std::string store = shards_[0]->info()->weight_store;
  EXPECT_FALSE(store.empty());
  for (const auto& shard : shards_) EXPECT_EQ(shard->info()->weight_store, store);
  for (WeightVersion version = 1; version < 5; ++version) {
    ASSERT_TRUE(update(size_t(version) % 3, version).ok());
    std::vector<TokenRecord> first;
    for (size_t i = 0; i < shards_.size(); ++i) {
      EXPECT_EQ(shards_[i]->info()->version, version);
      const auto tokens = generate(i, SequenceId(version) * 10 + i);
      EXPECT_EQ(tokens.front().version, version);
      if (i == 0) first = tokens;
      for (size_t k = 0; k < tokens.size(); ++k) {
        EXPECT_EQ(tokens[k].token, first[k].token);
        EXPECT_EQ(tokens[k].logprob, first[k].logprob);
      }
    }
  }
  ASSERT_TRUE(shards_[1]->set_version(9).ok());
  EXPECT_EQ(generate(2, 100).front().version, 9);
}

TEST_F(SharedWeightsTest, OtherLaunchersAndTypesHaveTheirOwn) {
  start(1);
  ShardSpec spec;
  spec.model = kFolder;
  spec.num_threads = 1;
  spec.dtype = "bfloat16";
  spec.kv_cache_memory_bytes = 1 << 20;
  const auto other = *launcher_.start_local(spec, sink_);
  EXPECT_NE(other->info()->weight_store, shards_[0]->info()->weight_store);
  spec.dtype = "auto";
  LocalLauncher second;
  const auto foreign = *second.start_local(spec, sink_);
  EXPECT_NE(foreign->info()->weight_store, shards_[0]->info()->weight_store);
}

TEST_F(SharedWeightsTest, WaitFlipsAllTogetherOrNone) {
  start(2);
  ASSERT_TRUE(shards_[0]->submit({request_for(1, 40)}).ok());
  ASSERT_TRUE(shards_[1]->submit({request_for(2, 40)}).ok());
  sink_.wait_for_tokens(2, 1);
  ASSERT_TRUE(shards_[1]->pause(PauseMode::kKeep).ok());
  const Status refused = update(0, 1, KvPolicy::kWait);
  const bool frozen = absl::IsFailedPrecondition(refused);
  EXPECT_TRUE(frozen || refused.ok()) << refused;  // the second may have been done already
  if (frozen) {
    for (const auto& shard : shards_) EXPECT_EQ(shard->info()->version, 0);
    EXPECT_EQ(generate(0, 3).front().version, 0);  // admission is open again
    ASSERT_TRUE(shards_[1]->resume().ok());
    ASSERT_TRUE(shards_[0]->commit("u1").ok());
  }
  for (const TokenRecord& record : sink_.wait(1)) EXPECT_EQ(record.version, 0);
  EXPECT_EQ(generate(0, 4).front().version, 1);
}

TEST_F(SharedWeightsTest, WeightsSleepWhenAllSleepAndComeBackWithTheSameBits) {
  start(2);
  const auto before = generate(0, 1, 20);
  ASSERT_TRUE(shards_[0]->sleep(SleepLevel::kKeep, {}).ok());
  EXPECT_TRUE(shards_[0]->info()->asleep.weights);
  EXPECT_EQ(generate(1, 2, 20).size(), 20u);  // the other one still has them
  ASSERT_TRUE(shards_[1]->sleep(SleepLevel::kKeep, {}).ok());
  EXPECT_FALSE(shards_[0]->served_checksums().ok());
  for (const auto& shard : shards_) ASSERT_TRUE(shard->wake({}).ok());
  for (size_t i = 0; i < 2; ++i) {
    const auto after = generate(i, 10 + i, 20);
    for (size_t k = 0; k < after.size(); ++k) EXPECT_EQ(after[k].logprob, before[k].logprob);
  }
}

TEST_F(SharedWeightsTest, ARefitDuringSleepIsServedAtWaking) {
  start(2);
  for (const SleepLevel level : {SleepLevel::kKeep, SleepLevel::kDrop}) {
    const WeightVersion version = level == SleepLevel::kKeep ? 1 : 2;
    for (const auto& shard : shards_) ASSERT_TRUE(shard->sleep(level, {}).ok());
    ASSERT_TRUE(update(0, version).ok());
    for (const auto& shard : shards_) ASSERT_TRUE(shard->wake({}).ok());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(generate(i, SequenceId(version) * 10 + i).front().version, version);
    }
  }
}

TEST_F(SharedWeightsTest, DroppedWeightsRefuseByNameUntilFed_FB119) {
  start(1);
  const auto before = generate(0, 1);
  for (WeightVersion version = 8; version < 32; version += 8) {  // of no change: 8 % 8 is 0
    ASSERT_TRUE(shards_[0]->sleep(SleepLevel::kDrop, {}).ok());
    ASSERT_TRUE(shards_[0]->wake({}).ok());
    const auto id = SequenceId(version);
    EXPECT_TRUE(generate(0, id).empty());
    EXPECT_EQ(shards_[0]->info()->serial, 0u);
    ASSERT_TRUE(update(0, version).ok());
    const auto after = generate(0, id + 1);
    ASSERT_EQ(after.size(), before.size());
    for (size_t k = 0; k < after.size(); ++k) EXPECT_EQ(after[k].logprob, before[k].logprob);
  }
}

TEST_F(SharedWeightsTest, UpdatesSleepsPausesAndShutdownsAtOnce) {
  start(2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    for (WeightVersion v = 1; v < 20; ++v) update(0, v, KvPolicy::kKeep).IgnoreError();
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 20; ++i) {
      shards_[1]->sleep(SleepLevel::kKeep, {}).IgnoreError();
      EXPECT_TRUE(shards_[1]->wake({}).ok());
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 40; ++i) {
      shards_[0]->pause(i % 2 == 0 ? PauseMode::kKeep : PauseMode::kRetract).IgnoreError();
      shards_[0]->set_version(100 + i).IgnoreError();
      EXPECT_TRUE(shards_[0]->resume().ok());
    }
  });
  for (SequenceId id = 1; id < 40; ++id) {
    EXPECT_TRUE(shards_[id % 2]->submit({request_for(id, 10)}).ok());
  }
  threads.clear();
  for (SequenceId id = 1; id < 40; ++id) sink_.wait(id);
  EXPECT_TRUE(shards_[0]->shutdown().ok());
  EXPECT_TRUE(update(1, 300).ok());
  EXPECT_EQ(generate(1, 100).front().version, 300);
}

}  // namespace
}  // namespace rlgen::backends
