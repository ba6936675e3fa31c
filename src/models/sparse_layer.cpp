#include "models/sparse_layer.h"

#include <algorithm>

#include "base/scratch.h"

namespace rlgen::models {
namespace {

int64_t keep_wanted_before_experts(Step& step) {
  keep_wanted_rows(step, step.work.hidden, step.spec.hidden);
  keep_wanted_rows(step, step.work.normed, step.spec.hidden);
  keep_wanted_rows(step, step.work.expert_ids, step.spec.experts.top_k);
  keep_wanted_rows(step, step.work.expert_weights, step.spec.experts.top_k);
  step.kept = true;
  return int64_t(step.batch.wanted_rows.size());
}

// A row's place in the routes of a batch.
int64_t route_offset(const Step& step, int64_t row, const DecoderSlots::Layer& slots) {
  const int64_t layers = route_axis(step.spec).layers;
  return (step.batch_row(row) * layers + slots.route_layer) * step.spec.experts.top_k;
}

// The product of a router or a gate, and its bias where there is one: in float32 whatever the
// profile.
void score_rows(const Step& step, int64_t rows, int32_t slot, int32_t bias, float* scores) {
  kernels::KernelContext context = step.context;
  context.profile = kernels::Profile::kFloat32;
  kernels::linear(context, product(step, step.work.normed.data(), rows, slot, bias, scores));
}

// The experts of each row, as given or by the router, and their weights.
void choose_experts(Step& step, int64_t rows, const DecoderSlots::Layer& slots) {
  Workspace& work = step.work;
  const ExpertSpec& experts = step.spec.experts;
  const auto top_k = size_t(experts.top_k);
  float* scores = grown(work.router_scores, rows * experts.count);
  int32_t* ids = grown(work.expert_ids, rows * experts.top_k);
  float* weights = grown(work.expert_weights, rows * experts.top_k);
  score_rows(step, rows, slots.router, slots.router_bias, scores);
  std::fill_n(ids, rows * experts.top_k, -1);
  for (int64_t row = 0; step.batch.given_routes != nullptr && row < rows; ++row) {
    std::copy_n(step.batch.given_routes + route_offset(step, row, slots), top_k,
                ids + row * experts.top_k);
  }
  kernels::route(step.context,
                 {.experts = experts.count,
                  .top_k = experts.top_k,
                  .normalize = experts.normalize,
                  .scores = experts.scores,
                  .choice_bias = step.weights.bias(slots.router_choice_bias),
                  .groups = experts.groups,
                  .top_groups = experts.top_groups,
                  .group_worth = experts.group_worth,
                  .scale = experts.scale},
                 scores, rows, ids, weights);
  for (int64_t row = 0; step.batch.routes != nullptr && row < rows; ++row) {
    std::copy_n(ids + row * experts.top_k, top_k,
                step.batch.routes + route_offset(step, row, slots));
  }
}

// Adds the expert that every row goes through, weighted by its own gate if it has one.
void add_shared_expert(Step& step, int64_t rows, const DecoderSlots::Layer& slots) {
  Workspace& work = step.work;
  const int64_t size = step.spec.experts.shared_intermediate;
  const bool gated = slots.shared_gate >= 0;
  float* weights = grown(work.shared_weights, rows);
  if (gated) {
    score_rows(step, rows, slots.shared_gate, -1, weights);
    kernels::sigmoid_all(step.context, rows, weights);
  }
  float* activated = grown(work.activated, rows * size);
  kernels::gated_linear(step.context,
                        product(step, work.normed.data(), rows, slots.shared_gate_up, -1, nullptr),
                        step.spec.gating, activated);
  const kernels::LinearArgs down =
      product(step, activated, rows, slots.shared_down, -1, work.normed.data());
  if (!gated) return kernels::linear_add(step.context, down, work.hidden.data());
  kernels::linear(step.context, down);
  kernels::add_weighted_rows(step.context, {.y = work.normed.data(), .weights = weights}, rows,
                             step.spec.hidden, work.hidden.data());
}

}  // namespace

int64_t add_experts(Step& step, int64_t rows, const DecoderSlots::Layer& slots, bool last) {
  Workspace& work = step.work;
  norm(step, work.hidden.data(), rows, slots.post_norm, work.normed.data());
  choose_experts(step, rows, slots);
  if (last && !step.kept) rows = keep_wanted_before_experts(step);
  kernels::add_experts(step.context,
                       {.x = work.normed.data(),
                        .rows = rows,
                        .ids = work.expert_ids.data(),
                        .weights = work.expert_weights.data(),
                        .top_k = step.spec.experts.top_k,
                        .gate_up = step.weights.stack(slots.experts_gate_up),
                        .down = step.weights.stack(slots.experts_down),
                        .gate_up_bias = step.weights.bias(slots.experts_gate_up_bias),
                        .down_bias = step.weights.bias(slots.experts_down_bias),
                        .gating = step.spec.gating},
                       &work.experts, work.hidden.data());
  if (slots.shared_down >= 0) add_shared_expert(step, rows, slots);
  return rows;
}

}  // namespace rlgen::models
