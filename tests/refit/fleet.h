#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/local/local_launcher.h"
#include "base/hash.h"
#include "engine/test_engine.h"
#include "generation/generation.h"
#include "refit/memory_transport.h"

namespace rlgen::fleet_test {

inline constexpr const char* kLlama = "llama";  // the checkpoint of most tests

inline std::string fixture(const std::string& name) { return "tests/fixtures/checkpoints/" + name; }

// The tensors of a checkpoint with some bits of every element changed: one trainer's weights.
class TrainerWeights {
 public:
  TrainerWeights(const std::string& checkpoint, int change)
      : model_(*models::open_model(fixture(checkpoint), 0)) {
    for (const models::StoredTensor& tensor : model_.tensors.tensors()) {
      const auto size = size_t(size_of(tensor.dtype));
      auto& bytes = bytes_[tensor.name];
      bytes.assign(tensor.bytes.begin(), tensor.bytes.end());
      for (size_t i = size == 4 ? 2 : 0; i < bytes.size(); i += size) bytes[i] ^= std::byte(change);
      tensors_.push_back({tensor.name, dense_view(bytes.data(), tensor.dtype, tensor.shape)});
      manifest_.push_back({tensor.name, tensor.dtype, tensor.shape, digest_of(bytes).hex()});
    }
  }

  const std::vector<refit::NamedTensor>& tensors() const { return tensors_; }
  // With digests.
  const std::vector<ManifestEntry>& manifest() const { return manifest_; }
  std::span<const std::byte> bytes(const std::string& name) const { return bytes_.at(name); }
  TensorView view(const std::string& name) const {
    return std::ranges::find(tensors_, name, &refit::NamedTensor::name)->view;
  }

 private:
  models::Model model_;
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::vector<refit::NamedTensor> tensors_;
  std::vector<ManifestEntry> manifest_;
};

// Shards of one checkpoint in this process, and what their requests have given.
class Fleet {
 public:
  explicit Fleet(const std::string& checkpoint, int shards = 1, int32_t max_num_seqs = 64,
                 int64_t kv_bytes = 0)
      : Fleet({.model = fixture(checkpoint),
               .num_threads = 1,
               .kv_cache_memory_bytes = kv_bytes,
               .max_num_seqs = max_num_seqs},
              shards) {}
  Fleet(const ShardSpec& spec, int shards) {
    auto made =
        generation::Generation::start(launcher_, std::vector<ShardSpec>(size_t(shards), spec), {});
    EXPECT_TRUE(made.ok()) << made.status();
    generation_ = *std::move(made);
  }
  ~Fleet() { generation_->shutdown().IgnoreError(); }

  // Makes each token take that long, so that a test is in time for the next one. Before submit.
  void slow_down(std::chrono::microseconds delay) { delay_ = delay; }

  generation::Generation& operator*() { return *generation_; }
  generation::Generation* operator->() { return generation_.get(); }

  void submit(const std::string& id, std::vector<int32_t> prompt, SamplingParams sampling) {
    generation::GenerationRequest request{.id = id, .prompt_token_ids = std::move(prompt)};
    request.sampling = std::move(sampling);
    const auto ids = generation_->submit(
        std::move(request), {.on_tokens =
                                 [this, id](int32_t, std::span<const TokenRecord> tokens,
                                            const RouteSpan&, const Finish*) {
                                   std::unique_lock lock(mutex_);
                                   made_[id] += tokens.size();
                                   changed_.notify_all();
                                   lock.unlock();
                                   std::this_thread::sleep_for(delay_);
                                 },
                             .on_rollout =
                                 [this](Rollout rollout) {
                                   const std::lock_guard lock(mutex_);
                                   const std::string name = rollout.id;
                                   EXPECT_TRUE(rollouts_.emplace(name, std::move(rollout)).second)
                                       << name << " ended twice";
                                   changed_.notify_all();
                                 }});
    EXPECT_TRUE(ids.ok()) << ids.status();
  }

  Rollout wait(const std::string& id) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return rollouts_.contains(id); }))
        << id << " did not end";
    return rollouts_[id];
  }
  void wait_for_tokens(const std::string& id, size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return made_[id] >= count || rollouts_.contains(id); });
  }
  size_t tokens_of(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return made_[id];
  }
  std::map<std::string, Rollout> rollouts() {
    const std::lock_guard lock(mutex_);
    return rollouts_;
  }

  // A whole update from memory.
  Status update(const TrainerWeights& weights, KvPolicy policy,
                std::optional<WeightVersion> version = std::nullopt) {
    UpdateSpec spec{.update_id = "update " + std::to_string(++updates_), .version = version};
    spec.kv_policy = policy;
    return refit::send_tensors(weights.tensors(), spec, generation_->updates(), nullptr);
  }

  void expect_served(const TrainerWeights& weights) {
    const auto served = generation_->served_checksums();
    ASSERT_TRUE(served.ok()) << served.status();
    ASSERT_EQ(served->size(), weights.manifest().size());
    for (size_t i = 0; i < served->size(); ++i) {
      EXPECT_EQ((*served)[i].name, weights.manifest()[i].name);
      EXPECT_EQ((*served)[i].digest, weights.manifest()[i].digest) << (*served)[i].name;
    }
  }

 private:
  backends::LocalLauncher launcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, size_t> made_;       // guarded by mutex_
  std::map<std::string, Rollout> rollouts_;  // guarded by mutex_
  int updates_ = 0;
  std::chrono::microseconds delay_{0};
  std::unique_ptr<generation::Generation> generation_;
};

inline SamplingParams sampling_of(int32_t max_tokens, int64_t seed) {
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  sampling.seed = seed;
  sampling.ignore_eos = true;
  return sampling;
}

// An engine of one checkpoint on which weights are put by hand: what results are held against.
class Reference {
 public:
  explicit Reference(const std::string& checkpoint)
      : loaded_(engine::test::load_checkpoint(checkpoint)) {}

  // Sets of a trainer's weights, packed as the store does it.
  std::shared_ptr<const models::WeightSet> pack(const TrainerWeights& weights,
                                                WeightVersion version) {
    const UpdateSpec spec{.update_id = "pack " + std::to_string(++serial_),
                          .version = version,
                          .serial = serial_ + 1,
                          .manifest = weights.manifest()};
    EXPECT_TRUE(loaded_.store->begin(spec).ok());
    for (const ManifestEntry& entry : spec.manifest) {
      EXPECT_TRUE(
          loaded_.store->write(spec.update_id, entry.name, 0, weights.bytes(entry.name)).ok());
    }
    EXPECT_TRUE(loaded_.store->prepare(spec.update_id).ok());
    EXPECT_TRUE(loaded_.store->commit(spec.update_id).ok());
    return loaded_.store->current();
  }

  // The same bytes under another version and serial.
  std::shared_ptr<const models::WeightSet> renamed(const models::WeightSet& set,
                                                   WeightVersion version) {
    return std::make_shared<models::WeightSet>(set.shared_table(), set.region(), version,
                                               1000 + ++serial_);
  }

  const engine::test::Loaded& loaded() const { return loaded_; }

 private:
  engine::test::Loaded loaded_;
  WeightSerial serial_ = 1;
};

// The request of a rollout, as a shard gets it.
inline SequenceRequest request_of(const Rollout& rollout, SequenceId id) {
  SequenceRequest request;
  request.id = id;
  request.prompt_token_ids = rollout.prompt_token_ids;
  request.sampling = rollout.sampling;
  return request;
}

inline void expect_same_token(const TokenRecord& found, const TokenRecord& expected,
                              const std::string& where) {
  EXPECT_EQ(found.token, expected.token) << where;
  EXPECT_EQ(found.logprob, expected.logprob) << where;
  EXPECT_EQ(found.oldest_kv, expected.oldest_kv) << where;
}

}  // namespace rlgen::fleet_test
