#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "contract/events.h"

// The best alternatives of a row, without a sort of the row.
namespace rlgen::engine {

// Higher value first, ties by lower id.
inline bool better(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
}

inline void sort_best_first(std::vector<TokenLogprob>* tokens) {
  std::sort(tokens->begin(), tokens->end(), better);
}

inline constexpr size_t kScanBlock = 64;

// Whether any of the kScanBlock elements from `row` on is above `bound`; the constant length lets
// compilers make vector code of it.
inline bool any_above(const float* row, float bound) {
  int found = 0;
  for (size_t i = 0; i < kScanBlock; ++i) found |= row[i] > bound ? 1 : 0;
  return found != 0;
}

// Fills `best` with the `count` best ids for which `allowed(id)` holds, fewer where there are not
// so many, in no order; their logprob is the logit. One pass and a heap of `count` entries.
template <typename Allowed>
void best_tokens(std::span<const float> logits, int32_t count, Allowed allowed,
                 std::vector<TokenLogprob>* best) {
  best->clear();
  const size_t limit = std::min(static_cast<size_t>(count), logits.size());
  best->reserve(limit);
  const auto offer = [&](size_t i) {
    const TokenLogprob entry{static_cast<int32_t>(i), logits[i]};
    const bool full = best->size() == limit;
    // Ids rise, so an equal logit is never better.
    if ((full && !(entry.logprob > best->front().logprob)) || !allowed(entry.token)) return;
    if (full) {
      std::pop_heap(best->begin(), best->end(), better);
      best->back() = entry;
    } else {
      best->push_back(entry);
    }
    std::push_heap(best->begin(), best->end(), better);
  };
  for (size_t begin = 0; begin < logits.size(); begin += kScanBlock) {
    const size_t end = std::min(begin + kScanBlock, logits.size());
    const bool whole = end - begin == kScanBlock && best->size() == limit;
    if (whole && !any_above(&logits[begin], best->front().logprob)) continue;
    for (size_t i = begin; i < end; ++i) offer(i);
  }
}

}  // namespace rlgen::engine
