#include "base/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace rlgen {
namespace {

TEST(Copy, EveryLengthAndStartAndNothingBeside) {
  constexpr std::size_t kMost = 200;
  std::vector<std::byte> from(kMost + 16);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  for (std::size_t size = 0; size <= kMost; ++size) {
    for (std::size_t start = 0; start < 70; start += start < 17 ? 1 : 13) {
      const std::byte* const source = from.data() + start % 16;
      std::vector<std::byte> to(start + size + 64, std::byte{0});
      std::vector<std::byte> want = to;
      std::copy(source, source + size, want.begin() + static_cast<std::ptrdiff_t>(start));
      copy_past_caches(to.data() + start, source, size);
      ASSERT_EQ(to, want) << size << " bytes at " << start;
    }
  }
}

}  // namespace
}  // namespace rlgen
