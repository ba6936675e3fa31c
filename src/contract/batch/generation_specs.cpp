#include "contract/batch/generation_specs.h"

#include <algorithm>
#include <cassert>

namespace rlgen {

std::vector<RowRange> shard_rows(int64_t rows, int32_t shards) {
  assert(shards >= 1);
  const int64_t share = (rows + shards - 1) / shards;
  std::vector<RowRange> ranges;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t begin = std::min(rows, shard * share);
    ranges.push_back({begin, std::min(rows, begin + share)});
  }
  return ranges;
}

}  // namespace rlgen
