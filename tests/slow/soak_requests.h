#pragma once

#include <cstdint>
#include <vector>

#include "contract/request.h"

namespace rlgen::engine {

// Small random numbers that are the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 2 + 1) {}
  // From 0 to `sides` - 1.
  int32_t roll(int32_t sides);
  bool one_in(int32_t chances) { return roll(chances) == 0; }

 private:
  uint64_t state_;
};

// `count` requests with ids 0, 1, ..., of every kind and shape for a model with a context of 128
// and 160 ids: one sample or several, prompts with common beginnings, scores, prompt
// log-probabilities, every sampling option, priorities, salts, and a few that are wrong. Short
// answers and long ones come in waves.
std::vector<SequenceRequest> soak_requests(int32_t count);

}  // namespace rlgen::engine
