#include "engine/weights/byte_ranges.h"

#include <iterator>

namespace rlgen::engine {

bool ByteRanges::add(size_t begin, size_t end) {
  if (begin >= end) return true;
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < end) return false;
  const bool has_previous = next != ranges_.begin();
  if (has_previous && std::prev(next)->second > begin) return false;

  covered_ += end - begin;
  if (next != ranges_.end() && next->first == end) {
    end = next->second;
    next = ranges_.erase(next);
  }
  if (has_previous && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
  } else {
    ranges_.emplace_hint(next, begin, end);
  }
  return true;
}

size_t ByteRanges::first_gap() const {
  if (ranges_.empty() || ranges_.begin()->first > 0) return 0;
  return ranges_.begin()->second;
}

}  // namespace rlgen::engine
