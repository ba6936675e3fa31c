#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

// A feed-forward of experts: which of them a row goes through, and what they add to it. Orders and
// roundings are those of docs/numbers.md; a row's bits and its experts depend on that row and the
// weights alone. Threads: as the operations of ops.h.
namespace rlgen::kernels {

// What the scores of a row become.
enum class RouterScores {
  kSoftmax,  // over all experts
  kSigmoid,  // each by itself
};

// What a group of experts is worth: of what its experts are chosen by.
enum class GroupWorth {
  kLargest,     // the largest
  kTwoLargest,  // the sum of the two largest
};

// How the scores of a row become experts and their weights.
struct RouterRule {
  int32_t experts = 0;
  int32_t top_k = 0;       // in [1, experts]
  bool normalize = false;  // the weights of the chosen are divided by their sum
  RouterScores scores = RouterScores::kSoftmax;
  // [experts], added where experts are chosen and nowhere else; null: nothing is.
  const float* choice_bias = nullptr;
  // Experts in so many runs of one length, at least 2 with kTwoLargest, of which `top_groups` may
  // be chosen from.
  int32_t groups = 1;
  int32_t top_groups = 1;
  GroupWorth group_worth = GroupWorth::kLargest;
  float scale = 1.0f;  // of every weight, at the end
};

// Floats that route_row works in.
inline int64_t route_scratch(const RouterRule& rule) { return 3 * int64_t(rule.experts); }

// One row. `scores` are the router's product, [experts]. With p the exp(score - largest score) of
// each expert, or its sigmoid: where ids[0] is -1 the top_k experts of largest p + bias are chosen,
// ties by the lowest id, and put into `ids` in that order, none of a group that may not be chosen
// from; other ids are kept as they are. weights[s] is p[ids[s]] over the sum of all p (sigmoid:
// over 1), or with `normalize` over that of the ids (sigmoid: + 1e-20), times the scale. So do
// Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE, gpt-oss, DeepSeek-V2 and V3 in Transformers (the routers of
// their modeling files). A NaN or +inf among the scores makes every weight NaN; the ids are valid
// then too.
void route_row(const KernelTable& table, const RouterRule& rule, const float* scores,
               float* scratch, int32_t* ids, float* weights);

// The same for rows: scores [rows, experts], ids and weights [rows, top_k].
void route(const KernelContext& context, const RouterRule& rule, const float* scores, int64_t rows,
           int32_t* ids, float* weights);

// 1 / (1 + exp(-v)), in double and rounded once: the weight of a shared expert from its score.
float sigmoid(float v);
// Of n numbers in place.
void sigmoid_all(const KernelContext& context, int64_t n, float* x);

// sum[r, :] = fma(y[place[r * count + s], :], weights[r * count + s], sum[r, :]) for s = 0, 1, ...
// Rows of n elements. A null place: row r of y, and count is 1.
struct WeightedRows {
  const float* y = nullptr;
  const int32_t* place = nullptr;  // [rows, count]
  const float* weights = nullptr;  // [rows, count]
  int64_t count = 1;
};
void add_weighted_rows(const KernelContext& context, const WeightedRows& added, int64_t rows,
                       int64_t n, float* sum);

// The rows that go through experts, and the experts of each.
struct ExpertArgs {
  const float* x = nullptr;  // [rows, hidden]
  int64_t rows = 0;
  const int32_t* ids = nullptr;    // [rows, top_k], each below the count of the stacks
  const float* weights = nullptr;  // [rows, top_k]
  int64_t top_k = 0;
  PackedStack gate_up;                  // of [2 * intermediate, hidden]
  PackedStack down;                     // of [hidden, intermediate]
  const float* gate_up_bias = nullptr;  // [experts, 2 * intermediate] or null
  const float* down_bias = nullptr;     // [experts, hidden] or null
  Gating gating;
};

// Rows that add_experts takes at a time, which bounds its buffers. With 128 experts of which a row
// goes through 8, each meets 64 of them: the arithmetic then outweighs the reading of its weights.
inline constexpr int64_t kExpertRows = 1024;

// Buffers of add_experts, grown on demand. R rows, at most kExpertRows.
struct ExpertWorkspace {
  std::vector<int32_t> next;            // [experts], the place after each expert's last row
  std::vector<int32_t> source;          // [R * top_k], the row that stands at a place
  std::vector<int32_t> place;           // [R, top_k]
  std::vector<RowGroup> gate_up, down;  // of the experts that have rows
  std::vector<float> activated;         // [R * top_k, intermediate]
  std::vector<float> out;               // [R * top_k, hidden]
};

// sum[r, :] = fma(down(gated layer of x[r]), weight, sum[r, :]) for the row's experts in the order
// of its ids, [rows, hidden]; both layers with their biases, where there are some. Rows are grouped
// by expert, whose weights are read once.
void add_experts(const KernelContext& context, const ExpertArgs& args, ExpertWorkspace* workspace,
                 float* sum);

}  // namespace rlgen::kernels
