#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "generation/generation_fixture.h"

namespace rlgen::generation {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class GenerationUpdatesTest : public GenerationTest {
 protected:
  static constexpr std::byte kNew{42};

  std::unique_ptr<Generation> start_two(const std::string& store = "") {
    state_->info.weight_store = other_->info.weight_store = store;
    FakeLauncher launcher({state_, other_});
    auto generation = Generation::start(launcher, {ShardSpec{}, ShardSpec{}}, {});
    EXPECT_TRUE(generation.ok()) << generation.status();
    return *std::move(generation);
  }

  static Status update(Generation& generation, std::optional<WeightVersion> version = {}) {
    UpdateSpec spec{.version = version};
    for (const char* name : {"a", "b"}) {
      spec.manifest.push_back({.name = name, .dtype = DType::kFloat32, .shape = {}, .digest = {}});
    }
    UpdateCoordinator& updates = generation.updates();
    RLGEN_ASSIGN_OR_RETURN(const std::string id, updates.open(spec));
    RLGEN_RETURN_IF_ERROR(updates.write(id, "a", 0, std::span(&kNew, 1)));
    RLGEN_RETURN_IF_ERROR(updates.write(id, "b", 0, std::span(&kNew, 1)));
    RLGEN_RETURN_IF_ERROR(updates.prepare(id));
    return updates.commit(id);
  }

  std::shared_ptr<FakeShardState> other_ = make_state();
};

TEST_F(GenerationUpdatesTest, AnUpdateReachesEveryShard_FB104) {
  const auto generation = start_two();
  ASSERT_TRUE(update(*generation, 7).ok());
  const ServedWeights served = *generation->served_weights();
  EXPECT_EQ(served.version, 7);
  EXPECT_EQ(served.open_update, std::nullopt);
  ASSERT_EQ(served.shards.size(), 2u);
  for (const auto& shard : served.shards) {
    EXPECT_EQ(shard.version, 7);
    EXPECT_EQ(shard.serial, served.serial);
    EXPECT_TRUE(shard.current);
  }
  EXPECT_EQ(generation->read_tensor("a")->bytes, std::vector<std::byte>{kNew});
  EXPECT_EQ(generation->served_checksums()->at(0).digest, "42");
  EXPECT_FALSE(generation->paused());
}

TEST_F(GenerationUpdatesTest, ShardsOfOneStoreAreOneParticipant) {
  const auto generation = start_two("store 1");
  ASSERT_TRUE(update(*generation).ok());
  EXPECT_EQ(state_->store.version(), 1);
  EXPECT_EQ(other_->store.version(), 0);  // it was not asked
}

TEST_F(GenerationUpdatesTest, ALabelReachesEveryShard) {
  const auto generation = start_two();
  EXPECT_TRUE(generation->set_rollout_weight_version(3).ok());
  EXPECT_EQ(state_->store.version(), 3);
  EXPECT_EQ(other_->store.version(), 3);
  EXPECT_EQ(generation->served_weights()->version, 3);
}

TEST_F(GenerationUpdatesTest, AStaleShardGetsNoRequests) {
  const auto generation = start_two();
  other_->store.fault = [](std::string_view verb) {
    return verb == "commit" ? FakeStore::Fault::kRefused : FakeStore::Fault::kNone;
  };
  EXPECT_THAT(update(*generation).message(), HasSubstr("shard 1"));
  for (int i = 0; i < 4; ++i) roll(*generation, request(), 1);
  EXPECT_EQ(state_->seen().size(), 4u);
  EXPECT_TRUE(other_->seen().empty());
  EXPECT_FALSE(generation->served_weights()->shards[1].current);
}

TEST_F(GenerationUpdatesTest, WithoutACurrentShardRequestsAreRefused) {
  const auto generation = start();
  state_->store.fault = [](std::string_view verb) {
    return verb == "commit" ? FakeStore::Fault::kRefused : FakeStore::Fault::kNone;
  };
  EXPECT_FALSE(update(*generation).ok());
  const auto refused = generation->submit(request(), {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().message(), HasSubstr("version 1"));
}

TEST_F(GenerationUpdatesTest, ShardsThatServeDifferentBytesAreFound) {
  const auto generation = start_two();
  ASSERT_TRUE(update(*generation).ok());
  UpdateSpec alone{.update_id = "alone", .version = 2, .serial = 9};
  ASSERT_TRUE(other_->store.begin(alone).ok());
  ASSERT_TRUE(other_->store.prepare("alone").ok());
  ASSERT_TRUE(other_->store.commit("alone").ok());
  EXPECT_EQ(generation->served_checksums().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(GenerationUpdatesTest, PauseReachesEveryShardAndMayClearTheCache) {
  const auto generation = start_two();
  EXPECT_TRUE(generation->pause(PauseMode::kKeep, {.clear_cache = true}).ok());
  EXPECT_TRUE(generation->paused());
  EXPECT_TRUE(generation->resume().ok());
  EXPECT_FALSE(generation->paused());
  EXPECT_TRUE(generation->invalidate_kv_cache());
  for (const auto& state : {state_, other_}) {
    EXPECT_THAT(state->controls, ElementsAre("keep", "clear", "resume", "clear"));
  }
}

TEST_F(GenerationUpdatesTest, APauseThatAShardRefusesIsUndone) {
  const auto generation = start_two();
  other_->control = [](std::string_view what) {
    return what == "clear" ? absl::InternalError("no") : absl::OkStatus();
  };
  EXPECT_THAT(generation->pause(PauseMode::kKeep, {.clear_cache = true}).message(),
              HasSubstr("shard 1"));
  EXPECT_FALSE(generation->paused());
  EXPECT_THAT(state_->controls, ElementsAre("keep", "clear", "resume"));
  // One that was there before stays.
  ASSERT_TRUE(generation->pause(PauseMode::kKeep).ok());
  EXPECT_FALSE(generation->pause(PauseMode::kKeep, {.clear_cache = true}).ok());
  EXPECT_TRUE(generation->paused());
  EXPECT_EQ(state_->controls.back(), "clear");
  // One that cannot be undone stays too.
  ASSERT_TRUE(generation->resume().ok());
  other_->control = [](std::string_view) { return absl::InternalError("no"); };
  EXPECT_THAT(generation->pause(PauseMode::kKeep).message(), HasSubstr("some shards stay paused"));
  EXPECT_TRUE(generation->paused());
}

TEST_F(GenerationUpdatesTest, T15_WakingIsCheapWhenAwake) {
  const auto generation = start_two();
  EXPECT_TRUE(generation->wake().ok());
  EXPECT_TRUE(generation->sleep(SleepLevel::kKeep).ok());
  const auto refused = generation->submit(request(), {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("asleep (weights, kv_cache)"));
  EXPECT_TRUE(generation->wake({.weights = true, .kv_cache = false}).ok());
  EXPECT_THAT(generation->submit(request(), {}).status().message(), HasSubstr("(kv_cache)"));
  EXPECT_TRUE(generation->wake().ok());
  EXPECT_TRUE(generation->wake().ok());
  for (const auto& state : {state_, other_}) {
    EXPECT_THAT(state->controls, ElementsAre("sleep", "wake", "wake"));
  }
  EXPECT_EQ(roll(*generation, request(), 1).size(), 1u);
}

TEST_F(GenerationUpdatesTest, SleepIsForAllShardsOrNone) {
  const auto generation = start_two();
  other_->control = [](std::string_view what) {
    return what == "wake" ? absl::OkStatus() : absl::FailedPreconditionError("no");
  };
  EXPECT_THAT(generation->sleep(SleepLevel::kDrop).message(), HasSubstr("shard 1"));
  EXPECT_THAT(state_->controls, ElementsAre("deep sleep", "wake"));
  EXPECT_FALSE(generation->asleep().weights);
  EXPECT_EQ(roll(*generation, request(), 1).size(), 1u);
}

TEST_F(GenerationUpdatesTest, InvalidateIsFalseUnlessEveryoneConfirms) {
  const auto generation = start_two();
  other_->control = [](std::string_view) { return absl::InternalError("no"); };
  EXPECT_FALSE(generation->invalidate_kv_cache());
}

TEST_F(GenerationUpdatesTest, T41_AShardThatNeverAnswersAPauseIsATimeout) {
  std::atomic<bool> go{false};
  const auto generation = start_two();
  other_->control = [&](std::string_view) {
    while (!go) std::this_thread::sleep_for(milliseconds(1));
    return absl::OkStatus();
  };
  const Status late = generation->pause(PauseMode::kWait, {.timeout = milliseconds(50)});
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), HasSubstr("shard 1"));
  EXPECT_THAT(state_->controls, ElementsAre("wait"));  // nothing was undone
  EXPECT_TRUE(generation->paused());
  go = true;
}

}  // namespace
}  // namespace rlgen::generation
