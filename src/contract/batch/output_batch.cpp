#include "contract/batch/output_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "contract/batch/route_columns.h"

namespace rlgen {
namespace {

int64_t length_of(const Rollout& rollout) {
  return static_cast<int64_t>(rollout.prompt_token_ids.size() + rollout.tokens.size());
}

int64_t width_of(std::span<const Rollout> rollouts, const OutputLayout& layout) {
  if (rollouts.empty()) return 0;
  int64_t width = layout.prompt_width;
  for (const Rollout& rollout : rollouts) width = std::max(width, length_of(rollout));
  return width;
}

Status check_rollouts(std::span<const Rollout> rollouts) {
  for (size_t row = 0; row < rollouts.size(); ++row) {
    const Rollout& rollout = rollouts[row];
    const std::string name = fmt::format("row {}", row);
    if (rollout.finish.reason == FinishReason::kError) {
      return annotate(rollout.finish.error, name);
    }
    for (const TokenRecord& token : rollout.tokens) {
      if (std::isfinite(token.logprob)) continue;
      return absl::DataLossError(
          fmt::format("{}: the log-probability of token {} is not finite", name, token.token));
    }
  }
  return absl::OkStatus();
}

StatusOr<HostTensor> lay_out_ids(std::span<const Rollout> rollouts, const OutputLayout& layout,
                                 int64_t width) {
  const auto rows = static_cast<int64_t>(rollouts.size());
  std::vector<int64_t> ids(static_cast<size_t>(rows * width), layout.pad_token_id);
  for (size_t row = 0; row < rollouts.size(); ++row) {
    auto out = ids.begin() + static_cast<int64_t>(row) * width;
    for (const int32_t id : rollouts[row].prompt_token_ids) *out++ = id;
    for (const TokenRecord& token : rollouts[row].tokens) *out++ = token.token;
  }
  HostTensor tensor(layout.id_type, Shape{rows, width});
  RLGEN_RETURN_IF_ERROR(annotate(write_integers(ids, &tensor), "output_ids"));
  return tensor;
}

// The columns of the generated tokens, [rows, width].
void lay_out_tokens(std::span<const Rollout> rollouts, int64_t width, GenerationOutputSpec* batch) {
  const auto rows = static_cast<int64_t>(rollouts.size());
  batch->logprobs = HostTensor(DType::kFloat32, Shape{rows, width});
  batch->weight_versions = HostTensor(DType::kInt64, Shape{rows, width});
  auto* logprobs = batch->logprobs.as<float>();
  auto* versions = batch->weight_versions.as<int64_t>();
  std::fill_n(versions, rows * width, int64_t{-1});
  for (size_t row = 0; row < rollouts.size(); ++row) {
    int64_t at = static_cast<int64_t>(row) * width +
                 static_cast<int64_t>(rollouts[row].prompt_token_ids.size());
    for (const TokenRecord& token : rollouts[row].tokens) {
      logprobs[at] = token.logprob;
      versions[at] = token.version;
      ++at;
    }
  }
}

// The columns with one value a row.
void lay_out_rows(std::span<const Rollout> rollouts, GenerationOutputSpec* batch) {
  std::vector<int64_t> generated;
  std::vector<int64_t> lengths;
  std::vector<int64_t> seeds;
  std::vector<bool> truncated;
  std::vector<bool> context_full;
  for (const Rollout& rollout : rollouts) {
    generated.push_back(static_cast<int64_t>(rollout.tokens.size()));
    lengths.push_back(length_of(rollout));
    seeds.push_back(rollout.sampling.seed.value_or(-1));
    truncated.push_back(rollout.truncated());
    context_full.push_back(rollout.finish.context_full);
    batch->finish_reasons.emplace_back(finish_reason_name(rollout.finish.reason));
  }
  batch->generation_lengths = HostTensor::of(generated);
  batch->unpadded_sequence_lengths = HostTensor::of(lengths);
  batch->seeds = HostTensor::of(seeds);
  batch->truncated = HostTensor::of(truncated);
  batch->context_full = HostTensor::of(context_full);
}

}  // namespace

StatusOr<GenerationOutputSpec> make_output_batch(std::span<const Rollout> rollouts,
                                                 const OutputLayout& layout) {
  RLGEN_RETURN_IF_ERROR(check_rollouts(rollouts));
  const int64_t width = width_of(rollouts, layout);
  GenerationOutputSpec batch;
  RLGEN_ASSIGN_OR_RETURN(batch.output_ids, lay_out_ids(rollouts, layout, width));
  lay_out_tokens(rollouts, width, &batch);
  lay_out_rows(rollouts, &batch);
  batch.logprobs_mode = logprobs_mode_name(layout.logprobs_mode);
  if (layout.routes.recorded()) {
    RLGEN_RETURN_IF_ERROR(lay_out_route_columns(rollouts, layout.routes, width, &batch));
  }
  return batch;
}

}  // namespace rlgen
