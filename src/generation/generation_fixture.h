#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "generation/fake_shard.h"
#include "generation/generation.h"

namespace rlgen::generation {

// Two tokens, 100 + sample and 3, and the end.
inline EventBatch two_tokens(const SequenceRequest& request) {
  return {{.id = request.id, .tokens = {{.token = 100 + request.sample_index, .logprob = -1.0f}}},
          {.id = request.id,
           .tokens = {{.token = 3, .logprob = -0.5f}},
           .finish = Finish{.reason = FinishReason::kStop, .stop_reason = 3}}};
}

class GenerationTest : public testing::Test {
 protected:
  static std::shared_ptr<FakeShardState> make_state() {
    auto state = std::make_shared<FakeShardState>();
    state->info.vocab_size = 200;
    state->info.max_model_len = 16;
    state->info.numerics.model_digest = "d";
    state->script = two_tokens;
    return state;
  }

  std::unique_ptr<Generation> start(GenerationOptions options = {}) {
    FakeLauncher launcher({state_});
    auto generation = Generation::start(launcher, {ShardSpec{}}, std::move(options));
    EXPECT_TRUE(generation.ok()) << generation.status();
    return *std::move(generation);
  }

  static GenerationRequest request(SamplingParams sampling = {}) {
    GenerationRequest request{.id = "p", .prompt_token_ids = {1, 2}};
    request.sampling = std::move(sampling);
    return request;
  }

  // Submits and waits for `count` rollouts.
  static std::vector<Rollout> roll(Generation& generation, GenerationRequest request,
                                   size_t count) {
    struct Shared {
      std::mutex mutex;
      std::vector<Rollout> rollouts;
      std::promise<void> done;
    };
    auto shared = std::make_shared<Shared>();
    const auto ids = generation.submit(
        std::move(request), {.on_tokens = {}, .on_rollout = [shared, count](Rollout rollout) {
                               const std::lock_guard lock(shared->mutex);
                               shared->rollouts.push_back(std::move(rollout));
                               if (shared->rollouts.size() == count) shared->done.set_value();
                             }});
    EXPECT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(shared->done.get_future().wait_for(std::chrono::seconds(20)),
              std::future_status::ready);
    return shared->rollouts;
  }

  std::shared_ptr<FakeShardState> state_ = make_state();
};

}  // namespace rlgen::generation
