#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "contract/batch/generation_specs.h"
#include "contract/rollout.h"
#include "contract/sampling_params.h"
#include "tensor/dtype.h"

namespace rlgen {

// What the rows of one shard are laid out by.
struct OutputLayout {
  int64_t pad_token_id = 0;
  int64_t prompt_width = 0;       // P; T is not below it
  DType id_type = DType::kInt64;  // of input_ids
  LogprobsMode logprobs_mode = LogprobsMode::kProcessed;
  RouteFacts routes;  // recorded: the batch has their four columns
};

// The batch of `rollouts`, a row each, in order; without rollouts tensors of shape [0, 0] and [0].
// Errors: that of a rollout which failed, with its row; kInvalidArgument for a token or pad id that
// id_type cannot hold; kDataLoss for a log-probability that is not finite; those of
// lay_out_route_columns.
StatusOr<GenerationOutputSpec> make_output_batch(std::span<const Rollout> rollouts,
                                                 const OutputLayout& layout);

// One batch of the shards' batches, rows in order of the shards, every row as wide as the widest.
// output_ids are filled up with `pad_token_id`, weight_versions with -1, routed_experts with the
// dummy route, the rest with 0. Shards without rows count for nothing but their types. Errors:
// kInvalidArgument lists required columns that no shard has, and names columns whose types,
// layers or top-k differ; a column that some shards have and others lack has error type KeyError
// and is named with the shards that lack it.
StatusOr<GenerationOutputSpec> merge_output_batches(std::span<const GenerationOutputSpec> shards,
                                                    int64_t pad_token_id);

}  // namespace rlgen
