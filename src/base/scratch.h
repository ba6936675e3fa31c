#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rlgen {

// Room for `size` elements in `buffer`, which grows where it is shorter and never shrinks: memory
// that is kept from one use to the next. What grew is zero. The pointer holds until the buffer
// grows again. Whoever owns the buffer says which thread may ask.
template <typename T>
T* grown(std::vector<T>& buffer, std::int64_t size) {
  if (static_cast<std::int64_t>(buffer.size()) < size) {
    buffer.resize(static_cast<std::size_t>(size));
  }
  return buffer.data();
}

}  // namespace rlgen
