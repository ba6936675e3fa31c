#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "contract/events.h"
#include "contract/sampling_params.h"
#include "kernels/kernel_table.h"

namespace rlgen::engine {

// One row to sample or to score. All state of the sampler is rebuilt from these values.
struct SampleRow {
  std::span<float> logits;  // [vocab of the head]; overwritten
  // Ids at and beyond are masked in every mode (rows of the head that no token has).
  int32_t vocab_size = 0;
  const SamplingParams* params = nullptr;
  std::span<const int32_t> prompt;    // without the output prefix
  std::span<const int32_t> output;    // output prefix first, then what was made; without this token
  std::span<const int32_t> stop_ids;  // ids that min_tokens holds back
  int32_t sample_index = 0;
  int64_t position = 0;  // absolute position of the token to be drawn
};

// Reused memory of one thread; no call depends on what an earlier one left in it. It grows to the
// vocabulary and then stays, so that a step allocates nothing but `TokenRecord::top`.
struct SampleScratch {
  std::vector<float> probabilities;  // weights of the row, then of what survives
  std::vector<float> raw;            // logits before any edit, where the mode needs them
  std::vector<double> blocks;        // sums of the blocks of `probabilities`
  std::vector<float> saved;          // logits of the allowed ids
  std::vector<uint32_t> marks;       // counts of the penalties; all zero between calls
};

// Draws a token (params->seed must be set unless greedy) and gives its log-probability in the
// mode of `params`, and the best alternatives. kDataLoss "non-finite logits" for NaN or +inf;
// kFailedPrecondition where the filters leave no token. `record->version` is left alone.
Status sample_token(const kernels::KernelTable& table, const SampleRow& row, SampleScratch* scratch,
                    TokenRecord* record);

// The same numbers for a given token, bit for bit those of sample_token when it draws that token.
// kInvalidArgument when the filters exclude the token (its log-probability is not finite) or the
// id is out of range.
Status score_token(const kernels::KernelTable& table, const SampleRow& row, int32_t token,
                   SampleScratch* scratch, TokenRecord* record);

}  // namespace rlgen::engine
