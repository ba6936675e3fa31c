#pragma once

#include <string>
#include <vector>

#include "exact/exact_requests.h"

// What a request must not notice: one entry of a list each.
namespace rlgen::engine::test {

// Requests, and what each of them gives alone.
struct Rollouts {
  std::vector<SequenceRequest> requests;
  Outcomes alone;
};

// A way of running them; returns what has to equal `alone`.
using Run = Outcomes (*)(const Loaded&, const Settings&, const Rollouts&);

// All at once.
Outcomes together(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts);
// All at once, behind others that grow where short answers are expected, so that the pool takes in
// more than it has room for and somebody loses blocks.
Outcomes preempted(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts);
// All at once, three times over; the last time. A pool of 256 blocks and more keeps everything, a
// smaller one evicts.
Outcomes warm(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts);
// One by one, each after the first `kTokens` + 1 ids of its own prompt, where it is long enough.
template <int32_t kTokens>
Outcomes after_hit(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts);
// The outputs given back, whole for their scores or half of them to go on from. The
// log-probabilities of the prompts are left as they were alone.
Outcomes scored(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts);
Outcomes continued(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts);

struct Surrounding {
  std::string name;
  Settings settings;
  Run run = together;
};

// Runs the rollouts in each of them, with the profile, the type of keys and values and the route
// capture that they had alone, and expects the bits and the routes of `rollouts.alone`.
void expect_nothing_shows(const Loaded& loaded, const Rollouts& rollouts,
                          const std::vector<Surrounding>& surroundings, const Settings& alone);

// Implementation details follow.

Outcomes after_hit_of(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts,
                      int32_t tokens);

template <int32_t kTokens>
Outcomes after_hit(const Loaded& loaded, const Settings& settings, const Rollouts& rollouts) {
  return after_hit_of(loaded, settings, rollouts, kTokens);
}

}  // namespace rlgen::engine::test
