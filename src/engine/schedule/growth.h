#pragma once

#include <cstdint>
#include <vector>

namespace rlgen::engine {

// How far sequences are expected to grow: the share of the tokens that their limits allow, learned
// from those that ended. Recent ones count more, and long limits more than short ones.
class GrowthEstimate {
 public:
  // A sequence came to its own end with `made` of at most `allowed` tokens.
  void ended(int64_t made, int64_t allowed);
  // A sequence was put back because others grew more than expected.
  void fell_short();

  // Above 0 and at most 1; one half while nothing is known.
  double share() const { return made_ / allowed_; }
  // Of a sequence that may make `allowed` more, rounded up.
  int32_t expected(int32_t allowed) const;

 private:
  double made_ = 0.5;
  double allowed_ = 1.0;
};

// What one sequence will take from the pool and give back to it.
struct BlockNeed {
  int32_t due = 0;       // blocks that it lacks for the rows it has to compute
  int32_t growth = 0;    // tokens that it is expected to make
  int32_t returned = 0;  // blocks that it alone holds, free once it ends
};

// The most blocks that the sequences together will need beyond those they hold, if each makes one
// token per step and gives its blocks back at its end. Sorts `needs`.
int64_t peak_need(std::vector<BlockNeed>* needs, int32_t block_size);

}  // namespace rlgen::engine
