#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/kernel_test.h"
#include "kernels/math.h"
#include "kernels/moe.h"

// Routers that choose by groups, with a bias, or from sigmoids: DeepSeek-V2 and V3.
namespace rlgen::kernels {
namespace {

using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;

struct Routed {
  Ids ids;
  Floats weights;
};

Routed routed(const KernelTable& table, const RouterRule& rule, const Floats& scores,
              Ids given = {}) {
  Routed row{.ids = std::move(given), .weights = Floats(size_t(rule.top_k))};
  if (row.ids.empty()) row.ids.assign(size_t(rule.top_k), -1);
  Floats scratch(size_t(route_scratch(rule)));
  route_row(table, rule, scores.data(), scratch.data(), row.ids.data(), row.weights.data());
  return row;
}

// What experts are chosen by, groups not yet looked at.
Floats choice_twin(const RouterRule& rule, const Floats& p) {
  Floats choice = p;
  for (size_t e = 0; rule.choice_bias != nullptr && e < p.size(); ++e) {
    choice[e] = p[e] + rule.choice_bias[e];
  }
  return choice;
}

// Indices of `values` from the largest down, equal ones from the lowest up.
Ids order_of(const Floats& values) {
  Ids order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int32_t a, int32_t b) { return values[size_t(a)] > values[size_t(b)]; });
  return order;
}

void close_other_groups(const RouterRule& rule, Floats* choice) {
  const auto size = ptrdiff_t(rule.experts / rule.groups);
  Floats worth;
  for (auto at = choice->begin(); at != choice->end(); at += size) {
    Floats group(at, at + size);
    std::ranges::sort(group, std::greater{});
    worth.push_back(rule.group_worth == GroupWorth::kLargest ? group[0] : group[0] + group[1]);
  }
  const Ids groups = order_of(worth);
  for (size_t i = size_t(rule.top_groups); i < groups.size(); ++i) {
    std::fill_n(choice->begin() + groups[i] * size, size, -kTestInfinity);
  }
}

// The definition of docs/numbers.md, of softmax weights in `p` (with their sum) or of sigmoids.
Routed router_twin(const RouterRule& rule, const Floats& p, float all) {
  Floats choice = choice_twin(rule, p);
  if (rule.groups > 1) close_other_groups(rule, &choice);
  Routed row{.ids = order_of(choice), .weights = {}};
  row.ids.resize(size_t(rule.top_k));
  float whole = rule.normalize ? 0.0f : all;
  for (const int32_t id : row.ids) whole += rule.normalize ? p[size_t(id)] : 0.0f;
  if (rule.normalize && rule.scores == RouterScores::kSigmoid) whole += 1e-20f;
  for (const int32_t id : row.ids) row.weights.push_back(p[size_t(id)] / whole * rule.scale);
  return row;
}

// The sigmoids' best two of four, from the better one of two groups.
RouterRule better_of_two_groups() {
  return {.experts = 4,
          .top_k = 2,
          .scores = RouterScores::kSigmoid,
          .groups = 2,
          .top_groups = 1,
          .group_worth = GroupWorth::kTwoLargest};
}

class RouterGroups : public OnEachIsa {
 protected:
  Routed expected(const RouterRule& rule, const Floats& scores) {
    Floats p(scores.size());
    if (rule.scores == RouterScores::kSigmoid) {
      for (size_t e = 0; e < p.size(); ++e) {
        p[e] = float(1.0 / (1.0 + exp_of(-double(scores[e]))));
      }
      return router_twin(rule, p, 1.0f);
    }
    const RowSums sums = table().row_sums(scores.data(), rule.experts, p.data(), nullptr);
    return router_twin(rule, p, float(sums.sum));
  }

  TestNumbers numbers_{31};
};
INSTANTIATE_TEST_SUITE_P(Isas, RouterGroups, testing::ValuesIn(available_isas()), name_of_isa_case);

TEST_P(RouterGroups, HasTheBitsOfItsDefinition) {
  struct Case {
    int32_t experts, groups, top_groups, top_k;
  };
  const Case cases[] = {{16, 4, 2, 4}, {256, 8, 4, 8}, {160, 8, 3, 6}, {12, 1, 1, 5}, {6, 3, 3, 2}};
  for (const auto& [experts, groups, top_groups, top_k] : cases) {
    const Floats bias = numbers_.floats(size_t(experts), -0.3f, 0.3f);
    for (const RouterScores kind : {RouterScores::kSoftmax, RouterScores::kSigmoid}) {
      for (const int switches : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const RouterRule rule{
            .experts = experts,
            .top_k = top_k,
            .normalize = (switches & 1) != 0,
            .scores = kind,
            .choice_bias = (switches & 2) != 0 ? bias.data() : nullptr,
            .groups = groups,
            .top_groups = top_groups,
            .group_worth = (switches & 4) != 0 ? GroupWorth::kTwoLargest : GroupWorth::kLargest,
            .scale = 2.5f};
        const Floats scores = numbers_.floats(size_t(experts), -5.0f, 5.0f);
        const Routed want = expected(rule, scores);
        const Routed found = routed(table(), rule, scores);
        EXPECT_EQ(found.ids, want.ids) << experts << " experts, switches " << switches;
        EXPECT_TRUE(all_same_bits(found.weights, want.weights));
        EXPECT_TRUE(all_same_bits(routed(table(), rule, scores, want.ids).weights, want.weights));
      }
    }
  }
}

// By hand: sigmoids 0.73, 0.88, 0.5, 0.27; the bias brings the last one in, its weight is without.
TEST_P(RouterGroups, TheBiasChoosesAndDoesNotWeigh) {
  const Floats scores = {1.0f, 2.0f, 0.0f, -1.0f};
  const Floats bias = {0.0f, 0.0f, 0.0f, 0.7f};
  const Routed row = routed(table(),
                            {.experts = 4,
                             .top_k = 2,
                             .scores = RouterScores::kSigmoid,
                             .choice_bias = bias.data(),
                             .scale = 2.0f},
                            scores);
  EXPECT_EQ(row.ids, (Ids{3, 1}));
  EXPECT_NEAR(row.weights[0], 2 * 0.268941, 1e-5);
  EXPECT_NEAR(row.weights[1], 2 * 0.880797, 1e-5);
}

// The best expert of all stands in the group that is worth less by the sum of two.
TEST_P(RouterGroups, AGroupIsWorthItsTwoBestOrItsBest) {
  const Floats scores = {3.0f, -4.0f, 2.0f, 2.5f};
  RouterRule rule = better_of_two_groups();
  EXPECT_EQ(routed(table(), rule, scores).ids, (Ids{3, 2}));
  rule.group_worth = GroupWorth::kLargest;
  EXPECT_EQ(routed(table(), rule, scores).ids, (Ids{0, 1}));
}

// Groups [.9 .1 .1 .1] and [.6 .6 .1 .1]: the first has the best expert of all.
TEST_P(RouterGroups, FB179_AGroupIsWorthTheSumOfItsTwoBestBiasedScores) {
  const Floats half(8, 0.0f);  // sigmoids of 0.5
  const Floats bias = {0.4f, -0.4f, -0.4f, -0.4f, 0.1f, 0.1f, -0.4f, -0.4f};
  const RouterRule rule{.experts = 8,
                        .top_k = 2,
                        .scores = RouterScores::kSigmoid,
                        .choice_bias = bias.data(),
                        .groups = 2,
                        .top_groups = 1,
                        .group_worth = GroupWorth::kTwoLargest};
  EXPECT_EQ(routed(table(), rule, half).ids, (Ids{4, 5}));
}

// Choices below zero: what closed groups are masked with must lose against them too.
TEST_P(RouterGroups, FB179_ExpertsOfClosedGroupsLoseAgainstNegativeOnes) {
  const Floats sigmoids = {0.9f, 0.8f, 0.7f, 0.6f};
  Floats scores;
  for (const float sigmoid : sigmoids) scores.push_back(std::log(sigmoid / (1.0f - sigmoid)));
  const Floats bias(4, -1.0f);
  RouterRule rule = better_of_two_groups();
  rule.choice_bias = bias.data();
  EXPECT_EQ(routed(table(), rule, scores).ids, (Ids{0, 1}));
  rule.group_worth = GroupWorth::kLargest;
  EXPECT_EQ(routed(table(), rule, scores).ids, (Ids{0, 1}));
  // The other way round, so that a mask of 0 and the lowest id do not look alike.
  EXPECT_EQ(routed(table(), rule, {scores.rbegin(), scores.rend()}).ids, (Ids{3, 2}));
}

// The bias is not taken off what it was added to: 12 + 2e-8 is 12 in float32.
TEST_P(RouterGroups, FB180_SmallSigmoidsUnderALargeBiasKeepTheirWeights) {
  const Floats bias = {12.0f, 12.0f, 0.0f, 0.0f};
  const Floats scores = {float(std::log(2e-8)), float(std::log(6e-8)), 1.0f, 2.0f};
  const RouterRule rule{.experts = 4,
                        .top_k = 2,
                        .normalize = true,
                        .scores = RouterScores::kSigmoid,
                        .choice_bias = bias.data()};
  const Routed row = routed(table(), rule, scores);
  ASSERT_EQ(row.ids, (Ids{0, 1}));
  // A score is rounded by 2^-20 at most (its size is below 32), an error of that share in a
  // sigmoid.
  EXPECT_NEAR(row.weights[0], 0.25, 0.25 * 0x1p-18);
  EXPECT_NEAR(row.weights[1], 0.75, 0.75 * 0x1p-18);
}

TEST_P(RouterGroups, EqualGroupsAndExpertsGoByTheLowest) {
  const RouterRule rule{.experts = 8,
                        .top_k = 3,
                        .scores = RouterScores::kSigmoid,
                        .groups = 4,
                        .top_groups = 2,
                        .group_worth = GroupWorth::kTwoLargest};
  EXPECT_EQ(routed(table(), rule, Floats(8, 0.25f)).ids, (Ids{0, 1, 2}));
}

TEST_P(RouterGroups, SigmoidsTooSmallToAddUpGiveNoNan) {
  const RouterRule rule{
      .experts = 4, .top_k = 2, .normalize = true, .scores = RouterScores::kSigmoid};
  EXPECT_EQ(routed(table(), rule, Floats(4, -1000.0f)).weights, (Floats{0.0f, 0.0f}));
}

TEST_P(RouterGroups, ScoresThatAreNoNumbersGiveNoWeightAndValidExperts) {
  const Floats bias(12, 0.5f);
  for (const float bad : {kTestNan, kTestInfinity}) {
    Floats scores = numbers_.floats(12);
    scores[7] = bad;
    for (const RouterScores kind : {RouterScores::kSoftmax, RouterScores::kSigmoid}) {
      const Routed row = routed(table(),
                                {.experts = 12,
                                 .top_k = 4,
                                 .scores = kind,
                                 .choice_bias = bias.data(),
                                 .groups = 4,
                                 .top_groups = 2},
                                scores);
      for (const float weight : row.weights) EXPECT_TRUE(std::isnan(weight));
      Ids ids = row.ids;
      std::ranges::sort(ids);
      EXPECT_EQ(std::ranges::unique(ids).size(), 0u);
      EXPECT_TRUE(ids.front() >= 0 && ids.back() < 12);
    }
  }
}

}  // namespace
}  // namespace rlgen::kernels
