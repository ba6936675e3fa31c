#include "exact/surroundings.h"

namespace rlgen::engine::test {
namespace {

constexpr SequenceId kRound = 1000;

Outcomes outcomes_of(Bench& bench, const std::vector<SequenceRequest>& requests,
                     SequenceId offset = 0) {
  Outcomes found;
  for (const SequenceRequest& request : requests) {
    found[request.id] = bench.sink.get(request.id + offset);
  }
  return found;
}

// The requests with the first `share` of what they gave alone, without the log-probabilities of
// their prompts.
std::vector<SequenceRequest> given_back(const Rollouts& rollouts, double share) {
  std::vector<SequenceRequest> requests = rollouts.requests;
  for (SequenceRequest& request : requests) {
    request.sampling.prompt_logprobs.reset();
    request.output_token_ids = rollouts.alone.at(request.id).ids();
    request.output_token_ids.resize(size_t(double(request.output_token_ids.size()) * share));
  }
  return requests;
}

}  // namespace

Outcomes together(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts) {
  return run_together(loaded, settings, rollouts.requests);
}

Outcomes preempted(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts) {
  Bench bench(loaded, settings);
  teach_short_answers(bench);
  for (SequenceId id = 0; id < 10; ++id) {
    SequenceRequest grows = make_request(kRound + id, {3, 4}, 40);
    grows.sampling.ignore_eos = true;
    bench.core->submit(grows);
  }
  for (const SequenceRequest& request : rollouts.requests) bench.core->submit(request);
  bench.drain();
  EXPECT_GT(bench.core->metrics().preemptions, 0);
  return outcomes_of(bench, rollouts.requests);
}

Outcomes warm(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts) {
  constexpr SequenceId kRounds = 3;
  Bench bench(loaded, settings);
  for (SequenceId round = 0; round < kRounds; ++round) {
    for (SequenceRequest request : rollouts.requests) {
      request.id += kRound * round;
      bench.core->submit(std::move(request));
    }
    bench.drain();
    if (round + 1 == kRounds) break;
    expect_equal(rollouts.alone, outcomes_of(bench, rollouts.requests, kRound * round),
                 "round " + std::to_string(round));
  }
  const bool keeps_all = settings.kv_blocks >= 256;
  EXPECT_TRUE(bench.core->metrics().cache_hit_tokens > 0 || !keeps_all);
  EXPECT_EQ(bench.core->metrics().cache_evictions == 0, keeps_all);
  return outcomes_of(bench, rollouts.requests, kRound * (kRounds - 1));
}

// A salt each, so that nobody finds the blocks of another.
Outcomes after_hit_of(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts,
                      int32_t tokens) {
  Bench bench(loaded, settings);
  Outcomes found;
  int hits = 0;
  for (SequenceRequest request : rollouts.requests) {
    request.cache_salt = std::to_string(request.id);
    const std::vector<int32_t>& prompt = request.prompt_token_ids;
    const bool hit = int32_t(prompt.size()) > tokens && !request.sampling.prompt_logprobs;
    if (hit) {
      SequenceRequest first =
          make_request(request.id + kRound, {prompt.begin(), prompt.begin() + tokens + 1}, 1);
      first.cache_salt = request.cache_salt;
      bench.run(first);
    }
    found[request.id] = bench.run(request);
    EXPECT_EQ(found[request.id].finish->cached_tokens, hit ? tokens : 0) << request.id;
    hits += int(hit);
  }
  EXPECT_GT(hits, 0);
  return found;
}

Outcomes scored(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts) {
  std::vector<SequenceRequest> requests = given_back(rollouts, 1.0);
  for (SequenceRequest& request : requests) request.score_only = true;
  const Outcomes scores = run_together(loaded, settings, requests);
  Outcomes found = rollouts.alone;
  for (auto& [id, outcome] : found) {
    EXPECT_EQ(scores.at(id).finish->reason, FinishReason::kStop) << scores.at(id).finish->error;
    outcome.tokens = scores.at(id).tokens;
    outcome.routes = scores.at(id).routes;
  }
  return found;
}

Outcomes continued(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts) {
  const std::vector<SequenceRequest> requests = given_back(rollouts, 0.5);
  const Outcomes rests = run_together(loaded, settings, requests);
  Outcomes found = rollouts.alone;
  for (const SequenceRequest& request : requests) {
    Outcome& outcome = found.at(request.id);
    const Outcome& rest = rests.at(request.id);
    outcome.tokens.resize(request.output_token_ids.size());
    outcome.tokens.insert(outcome.tokens.end(), rest.tokens.begin(), rest.tokens.end());
    outcome.finish = rest.finish;
    outcome.routes = rest.routes;
  }
  return found;
}

void expect_nothing_shows(const Loaded& loaded, const Rollouts& rollouts,
                          const std::vector<Surrounding>& surroundings, const Settings& alone) {
  for (const Surrounding& surrounding : surroundings) {
    SCOPED_TRACE(surrounding.name);
    Settings settings = surrounding.settings;
    settings.profile = alone.profile;
    settings.kv_dtype = alone.kv_dtype;
    settings.route_capture = alone.route_capture;
    expect_equal(rollouts.alone, surrounding.run(loaded, settings, rollouts), describe(settings));
  }
}

}  // namespace rlgen::engine::test
