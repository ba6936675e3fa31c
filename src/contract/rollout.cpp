#include "contract/rollout.h"

namespace rlgen {

std::vector<VersionSpan> Rollout::version_spans() const {
  std::vector<VersionSpan> spans;
  for (int32_t i = 0; i < static_cast<int32_t>(tokens.size()); ++i) {
    const TokenRecord& record = tokens[static_cast<size_t>(i)];
    if (spans.empty() || spans.back().version != record.version ||
        spans.back().oldest_kv != record.oldest_kv) {
      spans.push_back({i, i, record.version, record.oldest_kv});
    }
    spans.back().end = i + 1;
  }
  return spans;
}

}  // namespace rlgen
