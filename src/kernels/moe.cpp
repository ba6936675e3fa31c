#include "kernels/moe.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/scratch.h"
#include "kernels/math.h"
#include "kernels/row_ranges.h"

namespace rlgen::kernels {
namespace {

// The k largest of p, largest first, ties by the lowest id: each id that comes later stands behind
// those that it does not exceed. Where NaN lets no comparison hold, ids are distinct all the same.
void choose_largest(const float* p, int32_t n, int32_t k, int32_t* ids) {
  int32_t found = 0;
  for (int32_t id = 0; id < n; ++id) {
    if (found == k && !(p[id] > p[ids[k - 1]])) continue;
    int32_t at = found < k ? found++ : k - 1;
    for (; at > 0 && p[id] > p[ids[at - 1]]; --at) ids[at] = ids[at - 1];
    ids[at] = id;
  }
}

// Of one expert, out of those of all.
const float* bias_of(const float* all, const PackedStack& stack, int64_t expert) {
  return all == nullptr ? nullptr : all + expert * stack.first.n;
}

// p of every expert; returns what the weights are divided by where they are not normalised.
float score_experts(const KernelTable& table, const RouterRule& rule, const float* scores,
                    float* p) {
  if (rule.scores == RouterScores::kSoftmax) {
    const RowSums sums = table.row_sums(scores, rule.experts, p, nullptr);
    if (sums.invalid) std::fill_n(p, rule.experts, std::numeric_limits<float>::quiet_NaN());
    return float(sums.sum);
  }
  const bool valid = std::all_of(scores, scores + rule.experts, [](float score) {
    return score < std::numeric_limits<float>::infinity();
  });
  for (int32_t e = 0; e < rule.experts; ++e) {
    p[e] = valid ? sigmoid(scores[e]) : std::numeric_limits<float>::quiet_NaN();
  }
  return 1.0f;
}

float worth_of_group(const RouterRule& rule, const float* choice, int32_t group) {
  const int32_t size = rule.experts / rule.groups;
  int32_t best[2] = {};
  const int32_t count = rule.group_worth == GroupWorth::kLargest ? 1 : 2;
  choose_largest(choice + group * size, size, count, best);
  const float largest = choice[group * size + best[0]];
  return count == 1 ? largest : largest + choice[group * size + best[1]];
}

// Experts of all but the best groups, ties by the lowest group, become -inf. `worth` has [groups].
void leave_best_groups(const RouterRule& rule, float* choice, float* worth) {
  const int32_t size = rule.experts / rule.groups;
  for (int32_t g = 0; g < rule.groups; ++g) worth[g] = worth_of_group(rule, choice, g);
  for (int32_t g = 0; g < rule.groups; ++g) {
    int32_t better = 0;
    for (int32_t other = 0; other < rule.groups; ++other) {
      better += worth[other] > worth[g] || (worth[other] == worth[g] && other < g);
    }
    if (better < rule.top_groups) continue;
    std::fill_n(choice + g * size, size, -std::numeric_limits<float>::infinity());
  }
}

// The experts of a row by what is in p; `choice` and `worth` are scratch, [experts] each.
void choose_experts(const RouterRule& rule, const float* p, float* choice, float* worth,
                    int32_t* ids) {
  if (rule.choice_bias == nullptr && rule.groups == 1) {
    return choose_largest(p, rule.experts, rule.top_k, ids);
  }
  for (int32_t e = 0; e < rule.experts; ++e) {
    choice[e] = rule.choice_bias == nullptr ? p[e] : p[e] + rule.choice_bias[e];
  }
  if (rule.groups > 1) leave_best_groups(rule, choice, worth);
  choose_largest(choice, rule.experts, rule.top_k, ids);
}

// What the weights of a row with normalised weights are divided by.
float sum_of_chosen(const RouterRule& rule, const float* p, const int32_t* ids) {
  float sum = 0.0f;
  for (int32_t s = 0; s < rule.top_k; ++s) sum = sum + p[ids[s]];
  return rule.scores == RouterScores::kSigmoid ? sum + 1e-20f : sum;
}

// Rows that are anywhere are fetched ahead, whole: what notices a stream by itself is late for
// short ones.
void fetch_row(const float* row, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(row + i);
}

// Gives every (row, slot) a place, those of one expert one after the other in order of rows.
void place_rows_by_expert(const ExpertArgs& args, ExpertWorkspace* work) {
  const int64_t slots = args.rows * args.top_k;
  work->next.assign(size_t(args.gate_up.count), 0);
  for (int64_t i = 0; i < slots; ++i) ++work->next[size_t(args.ids[i])];
  work->gate_up.clear();
  work->down.clear();
  int32_t begin = 0;
  for (int64_t expert = 0; expert < args.gate_up.count; ++expert) {
    const int32_t rows = std::exchange(work->next[size_t(expert)], begin);
    if (rows == 0) continue;
    work->gate_up.push_back({.w = args.gate_up.at(expert),
                             .bias = bias_of(args.gate_up_bias, args.gate_up, expert),
                             .row = begin,
                             .rows = rows});
    work->down.push_back({.w = args.down.at(expert),
                          .bias = bias_of(args.down_bias, args.down, expert),
                          .row = begin,
                          .rows = rows});
    begin += rows;
  }
  int32_t* const source = grown(work->source, slots);
  int32_t* const place = grown(work->place, slots);
  for (int64_t i = 0; i < slots; ++i) {
    place[i] = work->next[size_t(args.ids[i])]++;
    source[place[i]] = int32_t(i / args.top_k);
  }
}

// add_experts of at most kExpertRows rows.
void add_experts_at_once(const KernelContext& context, const ExpertArgs& args,
                         ExpertWorkspace* work, float* sum) {
  const int64_t hidden = args.down.first.n;
  const int64_t inner = args.down.first.k;
  const int64_t slots = args.rows * args.top_k;
  place_rows_by_expert(args, work);
  float* const activated = grown(work->activated, slots * inner);
  grouped_gated_linear(context,
                       {.x = args.x,
                        .ldx = hidden,
                        .source = work->source.data(),
                        .groups = work->gate_up,
                        .m = slots},
                       args.gating, activated);
  float* const out = grown(work->out, slots * hidden);
  grouped_linear(
      context,
      {.x = activated, .ldx = inner, .groups = work->down, .y = out, .ldy = hidden, .m = slots});
  add_weighted_rows(
      context,
      {.y = out, .place = work->place.data(), .weights = args.weights, .count = args.top_k},
      args.rows, hidden, sum);
}

}  // namespace

void route_row(const KernelTable& table, const RouterRule& rule, const float* scores,
               float* scratch, int32_t* ids, float* weights) {
  float* const p = scratch;
  const float all = score_experts(table, rule, scores, p);
  if (ids[0] < 0) choose_experts(rule, p, p + rule.experts, p + 2 * int64_t(rule.experts), ids);
  const float whole = rule.normalize ? sum_of_chosen(rule, p, ids) : all;
  for (int32_t s = 0; s < rule.top_k; ++s) weights[s] = p[ids[s]] / whole * rule.scale;
}

void route(const KernelContext& context, const RouterRule& rule, const float* scores, int64_t rows,
           int32_t* ids, float* weights) {
  for_row_ranges(context, rows, rule.experts, 1 << 12, [&](int64_t begin, int64_t end) {
    thread_local std::vector<float> scratch;
    float* const floats = grown(scratch, route_scratch(rule));
    for (int64_t r = begin; r < end; ++r) {
      route_row(*context.table, rule, scores + r * rule.experts, floats, ids + r * rule.top_k,
                weights + r * rule.top_k);
    }
  });
}

float sigmoid(float v) { return float(1.0 / (1.0 + exp_of(-double(v)))); }

void sigmoid_all(const KernelContext& context, int64_t n, float* x) {
  for_row_ranges(context, n, 1, 1 << 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = sigmoid(x[i]);
  });
}

void add_weighted_rows(const KernelContext& context, const WeightedRows& added, int64_t rows,
                       int64_t n, float* sum) {
  for_row_ranges(context, rows, n * added.count, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = r * added.count; i < (r + 1) * added.count; ++i) {
        const int64_t at = added.place == nullptr ? r : added.place[i];
        if (added.place != nullptr && i + 1 < end * added.count) {
          fetch_row(added.y + added.place[i + 1] * n, n);
        }
        context.table->add_scaled(sum + r * n, added.y + at * n, added.weights[i], n);
      }
    }
  });
}

void add_experts(const KernelContext& context, const ExpertArgs& args, ExpertWorkspace* workspace,
                 float* sum) {
  const int64_t hidden = args.down.first.n;
  for (int64_t row = 0; row < args.rows; row += kExpertRows) {
    ExpertArgs part = args;
    part.x += row * hidden;
    part.rows = std::min(kExpertRows, args.rows - row);
    part.ids += row * args.top_k;
    part.weights += row * args.top_k;
    add_experts_at_once(context, part, workspace, sum + row * hidden);
  }
}

}  // namespace rlgen::kernels
