#include "cli/bench/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/decoder.h"

namespace rlgen::cli {
namespace {

// Steps in which the prompts of a row are read, where none of them is cached and every sequence
// that has its prompt gets a token in each.
int32_t prompt_steps(const RowSpec& row, const BenchOptions& options) {
  const int64_t rows = options.engine.spec.max_num_batched_tokens - row.batch;
  const int64_t tokens = int64_t{row.batch} * prompt_tokens(row, options);
  return static_cast<int32_t>(tokens / std::max<int64_t>(rows, 1) + 1);
}

}  // namespace

int32_t prompt_tokens(const RowSpec& row, const BenchOptions& options) {
  return row.prompt > 0 ? row.prompt : options.prefill_tokens;
}

int32_t new_tokens(const RowSpec& row, const BenchOptions& options) {
  if (row.decode == 0) return 1;
  if (options.decode_tokens > 0) return options.decode_tokens;
  const bool cached = options.engine.spec.enable_prefix_caching;
  return row.decode + (cached ? 0 : prompt_steps(row, options));
}

std::string why_not(const RowSpec& row, const BenchOptions& options, const ShardInfo& info,
                    const models::DecoderSpec& model) {
  const ShardSpec& spec = options.engine.spec;
  if (row.kind == RowKind::kAttention) {
    if (row.context <= info.max_model_len) return "";
    return fmt::format("the context has {} positions", info.max_model_len);
  }
  if (row.kind == RowKind::kRecording && models::route_axis(model).layers == 0) {
    return "the model has no experts";
  }
  if (!runs_prompts(row.kind)) return "";
  if (row.batch > spec.max_num_seqs) return fmt::format("--max-num-seqs is {}", spec.max_num_seqs);
  const int64_t tokens = prompt_tokens(row, options) + new_tokens(row, options);
  if (tokens > info.max_model_len) {
    return fmt::format("needs {} positions, the context has {}", tokens, info.max_model_len);
  }
  if (tokens * row.batch > info.kv_capacity_tokens) {
    return fmt::format(
        "needs keys and values of {} tokens, --kv-cache-memory-bytes has room for {}",
        tokens * row.batch, info.kv_capacity_tokens);
  }
  return "";
}

}  // namespace rlgen::cli
