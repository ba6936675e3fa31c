#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace rlgen {

// Which whole numbers a field or an option takes: one place for the check and for the words of the
// error, whoever reads the number.
struct WholeRange {
  int64_t low = 0;
  int64_t high = 0;
  int64_t step = 1;          // only multiples of it
  std::string_view words{};  // what is allowed; empty: the two ends

  constexpr bool contains(int64_t value) const {
    return value >= low && value <= high && value % step == 0;
  }
  // For "it must be ...": "a whole number from 1 to 1024".
  std::string rule() const;
};

inline constexpr int64_t kMostInt32 = std::numeric_limits<int32_t>::max();

// Of a ShardSpec.
inline constexpr WholeRange kNumSeqsRange{1, 1 << 20};
inline constexpr WholeRange kNumBatchedTokensRange{1, 1 << 24};
inline constexpr WholeRange kBlockSizeRange{16, 1024, 16, "a multiple of 16 from 16 to 1024"};
inline constexpr double kLeastMemoryFraction = 0.01;
inline constexpr double kMostMemoryFraction = 1.0;
inline constexpr double kMemoryFraction = 0.5;  // where nobody says
// A token of prompt and one of output. The model decides on the other end.
inline constexpr int32_t kLeastModelLen = 2;

// Of SamplingParams.
inline constexpr WholeRange kSamplesRange{1, 16384};  // each costs memory before the first one runs
inline constexpr WholeRange kMaxTokensRange{1, kMostInt32};
inline constexpr WholeRange kCountRange{0, kMostInt32};
inline constexpr WholeRange kTopKRange{-1, kMostInt32, 1,
                                       "-1 or 0 (off) or a whole number up to 2147483647"};
inline constexpr WholeRange kSeedRange{0, std::numeric_limits<int64_t>::max()};

}  // namespace rlgen
