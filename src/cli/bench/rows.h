#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace rlgen::cli {

inline constexpr int32_t kSamplingBatch =
    64;  // of the sampling rows, and of the step they refer to

enum class RowKind {
  kLoad,
  kMemory,
  kPrefill,
  kDecode,
  kMixed,
  kRecording,
  kAttention,
  kSampling,
  kScheduler,
  kRefit
};

// Whether such a row has prompts of `RowSpec::prompt` tokens, or of those that the options say.
constexpr bool runs_prompts(RowKind kind) {
  return kind == RowKind::kPrefill || kind == RowKind::kDecode || kind == RowKind::kRecording;
}

enum class RowTransport { kMemory, kDisk, kIpc };

enum class RowSampling { kGreedy, kPlain, kTopP };

// One row of the benchmark: what is done, at which size.
struct RowSpec {
  std::string name;
  RowKind kind = RowKind::kPrefill;
  int32_t batch = 1;    // sequences
  int32_t prompt = 0;   // tokens of each prompt; 0: --prefill-tokens
  int32_t decode = 0;   // new tokens of each sequence, unless --decode-tokens says otherwise; 0:
                        // the row ends with the prompts
  int32_t context = 0;  // attention: keys that the new token sees
  int32_t waiting = 0;  // scheduler: sequences beside the batch that wait
  int32_t entries = 0;  // sampling: ids of a row; 0: the model's vocabulary
  RowSampling sampling = RowSampling::kPlain;
  RowTransport transport = RowTransport::kMemory;  // refit
};

// Every row there is, in the order in which they run.
std::span<const RowSpec> all_rows();

// The rows whose names match one of `patterns` (shell patterns: *, ?, [...]), in their order; all
// without patterns. kInvalidArgument where a pattern matches none, with the names there are.
StatusOr<std::vector<RowSpec>> choose_rows(const std::vector<std::string>& patterns);

}  // namespace rlgen::cli
