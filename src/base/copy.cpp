#include "base/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rlgen {

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size) {
  if (size == 0) return;
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  const std::size_t head = std::min(size, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kLine <= size; done += kLine) {
    for (std::size_t i = done; i < done + kLine; i += sizeof(__m128i)) {
      const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), words);
    }
  }
  std::memcpy(to + done, from + done, size - done);
  _mm_sfence();
#else
  std::memcpy(to, from, size);
#endif
}

}  // namespace rlgen
