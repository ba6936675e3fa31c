#pragma once

#include <cstddef>
#include <map>

namespace rlgen::engine {

// A set of half-open byte ranges; neighbours are merged. Plain value, no locking.
class ByteRanges {
 public:
  // Adds [begin, end). False, with nothing changed, when a byte of it is there already.
  bool add(size_t begin, size_t end);

  size_t covered() const { return covered_; }
  // First byte that is missing when [0, ...) is read from the front.
  size_t first_gap() const;
  // begin -> end, ascending.
  const std::map<size_t, size_t>& ranges() const { return ranges_; }

 private:
  std::map<size_t, size_t> ranges_;
  size_t covered_ = 0;
};

}  // namespace rlgen::engine
