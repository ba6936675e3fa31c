#include "cli/bench/work.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cmath>

namespace rlgen::cli {

ModelCost model_cost(const models::DecoderSpec& spec, const models::NameTable& table,
                     const models::DecoderSlots& slots, int64_t kv_bytes_per_token) {
  ModelCost cost;
  if (spec.experts.count > 0) cost.expert_share = double(spec.experts.top_k) / spec.experts.count;
  absl::flat_hash_set<int32_t> experts;
  for (const models::DecoderSlots::Layer& layer : slots.layers) {
    experts.insert({layer.experts_gate_up, layer.experts_down});
  }
  for (size_t i = 0; i < table.slots.size(); ++i) {
    const models::WeightSlot& slot = table.slots[i];
    const auto index = static_cast<int32_t>(i);
    if (slot.kind != models::SlotKind::kMatrix) continue;
    const double flops = 2.0 * static_cast<double>(slot.n * slot.k * slot.count);
    if (index == slots.head) {
      cost.head_bytes += static_cast<int64_t>(slot.bytes);
      cost.head_flops += flops;
    } else if (experts.contains(index)) {
      cost.expert_bytes += static_cast<int64_t>(slot.bytes);
      cost.body_flops += flops * cost.expert_share;
    } else if (index != slots.embedding) {
      cost.body_bytes += static_cast<int64_t>(slot.bytes);
      cost.body_flops += flops;
    }
  }
  const int32_t value_dim = models::kv_layout(spec, DType::kFloat32, 16).value_dim;
  cost.attention_flops = 2.0 * spec.layers * spec.heads * (spec.head_dim + value_dim);
  cost.kv_bytes = kv_bytes_per_token;
  return cost;
}

double ModelCost::step_bytes(double rows) const {
  const double read = 1.0 - std::pow(1.0 - expert_share, rows);
  return static_cast<double>(body_bytes + head_bytes) + read * static_cast<double>(expert_bytes);
}

Work prefill_work(const ModelCost& cost, int64_t prompts, int64_t tokens, int64_t rows_per_step) {
  const auto rows = static_cast<double>(prompts * tokens);
  const double seen = static_cast<double>(prompts) * static_cast<double>(tokens) *
                      static_cast<double>(tokens + 1) / 2.0;
  const auto steps = static_cast<double>((prompts * tokens + rows_per_step - 1) / rows_per_step);
  const double step_rows = steps > 0.0 ? rows / steps : 0.0;
  Work work;
  work.flops = rows * cost.body_flops + static_cast<double>(prompts) * cost.head_flops +
               seen * cost.attention_flops;
  work.bytes = steps * cost.step_bytes(step_rows) + rows * static_cast<double>(cost.kv_bytes);
  return work;
}

Work decode_work(const ModelCost& cost, int64_t tokens, int64_t keys, double steps) {
  Work work;
  work.flops = static_cast<double>(tokens) * (cost.body_flops + cost.head_flops) +
               static_cast<double>(keys) * cost.attention_flops;
  const double step_rows = steps > 0.0 ? static_cast<double>(tokens) / steps : 0.0;
  work.bytes = steps * cost.step_bytes(step_rows) +
               static_cast<double>(keys) * static_cast<double>(cost.kv_bytes);
  return work;
}

double least_seconds(const Work& work, double flops, double read_bytes) {
  return std::max(work.flops / flops, work.bytes / read_bytes);
}

}  // namespace rlgen::cli
