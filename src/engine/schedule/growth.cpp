#include "engine/schedule/growth.h"

#include <algorithm>
#include <cmath>

namespace rlgen::engine {
namespace {

constexpr double kRemembered = 15.0 / 16.0;  // after each sequence that ends
constexpr double kStepUp = 0.25;             // of the way to 1, where the estimate fell short

}  // namespace

void GrowthEstimate::ended(int64_t made, int64_t allowed) {
  if (made < 1 || allowed < made) return;
  made_ = made_ * kRemembered + double(made);
  allowed_ = allowed_ * kRemembered + double(allowed);
}

void GrowthEstimate::fell_short() { made_ += (allowed_ - made_) * kStepUp; }

int32_t GrowthEstimate::expected(int32_t allowed) const {
  return std::min(allowed, int32_t(std::ceil(double(allowed) * share())));
}

// Between two ends nobody gives back, so the need is greatest just before one. Before the end of
// the i-th longest, those before it are there too and all of them have grown by what it makes.
int64_t peak_need(std::vector<BlockNeed>* needs, int32_t block_size) {
  std::ranges::sort(*needs,
                    [](const BlockNeed& a, const BlockNeed& b) { return a.growth > b.growth; });
  int64_t returned = 0;
  for (const BlockNeed& need : *needs) returned += need.returned;
  int64_t peak = 0;
  int64_t due = 0;
  int64_t there = 0;
  for (const BlockNeed& need : *needs) {
    ++there;
    due += need.due;
    returned -= need.returned;
    const int64_t grown = (there * need.growth + block_size - 1) / block_size;
    peak = std::max(peak, due + grown - returned);
  }
  return peak;
}

}  // namespace rlgen::engine
