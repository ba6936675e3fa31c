#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/test_engine.h"
#include "exact/digest_file.h"
#include "exact/exact_requests.h"

// The axis of routes: what a request's tokens used, and what comes of routes that are given, does
// not depend on how the engine went about it.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

constexpr const char* kSparse[] = {"deepseek_v3", "gpt_oss", "qwen3_moe"};

Settings with_routes(Settings settings) {
  settings.route_capture = RouteCapture::kExpertLayers;
  return settings;
}

// Half of them replay what they used alone, rolled on by one expert in every slot of every row.
std::vector<SequenceRequest> half_replayed(std::vector<SequenceRequest> requests,
                                           const Loaded& loaded) {
  const models::RouteAxis axis = models::route_axis(loaded.model.decoder.spec);
  const Outcomes alone = run_alone(loaded, with_routes({}), requests);
  for (SequenceRequest& request : requests) {
    if (request.id % 2 == 0) continue;
    HostTensor routes = HostTensor::copy_of(alone.at(request.id).routes.view());
    for (std::byte& id : routes.bytes()) id = std::byte((int(id) + 1) % axis.experts);
    request.routed_experts = std::make_shared<const HostTensor>(std::move(routes));
  }
  return requests;
}

// Every sequence has a row for each token but the last.
void expect_whole(const Outcomes& outcomes, const std::vector<SequenceRequest>& requests) {
  for (const SequenceRequest& request : requests) {
    const Outcome& outcome = outcomes.at(request.id);
    ASSERT_EQ(size_t(outcome.routes.rows()),
              request.prompt_token_ids.size() + outcome.tokens.size() - 1);
  }
}

TEST(RoutesExact, AloneAndTogetherOnEveryIsaThreadsAndBudget) {
  DigestStream all;
  for (const char* name : kSparse) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = half_replayed(within_vocabulary(mixed_requests(24), loaded), loaded);
    const Outcomes alone = run_alone(loaded, with_routes({.isa = "scalar"}), requests);
    expect_whole(alone, requests);
    for (const kernels::Isa isa : kernels::available_isas()) {
      for (const int32_t budget : {1, 7, 16, 512}) {
        const Settings settings = with_routes({.isa = std::string(kernels::isa_name(isa)),
                                               .threads = budget == 16 ? 1 : 2,
                                               .budget = budget});
        expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
      }
    }
    for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  }
  EXPECT_TRUE(report_digest("engine routes", all.digest()));
}

TEST(RoutesExact, FB233_FB235_HitsEvictionsAndPreemptionsShowInNoRow) {
  for (const char* name : kSparse) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = half_replayed(within_vocabulary(mixed_requests(24), loaded), loaded);
    const Outcomes alone = run_alone(loaded, with_routes({}), requests);
    int64_t hits = 0;
    int64_t preemptions = 0;
    for (const int32_t blocks : {512, 40, 11}) {
      const Settings settings = with_routes({.threads = 2, .budget = 37, .kv_blocks = blocks});
      Bench bench(loaded, settings);
      teach_short_answers(bench);
      for (SequenceId round = 0; round < 2; ++round) {
        for (const SequenceRequest& request : requests) {
          SequenceRequest again = request;
          again.id = request.id + 1000 * round;
          bench.core->submit(again);
        }
        for (int i = 0; i < 20; ++i) bench.core->step(Admission::kAll);
        bench.core->retract_all();
        bench.drain();
        Outcomes found;
        for (const auto& [id, outcome] : alone) found[id] = bench.sink.get(id + 1000 * round);
        expect_equal(alone, found, describe(settings) + ", round " + std::to_string(round));
        expect_whole(found, requests);
      }
      hits += bench.core->metrics().cache_hit_tokens;
      preemptions += bench.core->metrics().preemptions;
    }
    EXPECT_GT(hits, 0);
    EXPECT_GT(preemptions, 0);
  }
}

// The flip is part of what a sequence is: at the same token it gives the same rows however the rest
// went.
TEST(RoutesExact, AnUpdateThatKeepsKvKeepsRowsInAnyCompany) {
  for (const char* name : kSparse) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto other = loaded.other_weights(1, 2);
    SequenceRequest asked = within_vocabulary({mixed_request(3)}, loaded)[0];
    asked.sampling = {.max_tokens = 20, .ignore_eos = true, .seed = 5};
    const auto flipped = [&](const Settings& settings, bool company) {
      Bench bench(loaded, settings);
      bench.core->submit(asked);
      while (bench.sink.get(asked.id).tokens.size() < 6) bench.core->step(Admission::kAll);
      if (company) {
        for (SequenceRequest& request : within_vocabulary(mixed_requests(3), loaded)) {
          bench.core->submit(std::move(request));
        }
      }
      bench.core->set_weights(other, KvPolicy::kKeep);
      bench.drain();
      return Outcomes{{asked.id, bench.sink.get(asked.id)}};
    };
    const Outcomes whole = flipped(with_routes({.isa = "scalar"}), false);
    expect_whole(whole, {asked});
    for (const int32_t budget : {1, 16, 512}) {
      const Settings settings = with_routes({.threads = 2, .budget = budget});
      expect_equal(whole, flipped(settings, true), describe(settings));
    }
  }
}

}  // namespace
}  // namespace rlgen::engine
