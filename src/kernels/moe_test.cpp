#include "kernels/moe.h"

#include <algorithm>
#include <numeric>

#include "kernels/kernel_test.h"

namespace rlgen::kernels {
namespace {

using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;

struct RoutedRow {
  Ids ids;
  Floats weights;
  Floats p;
  double sum = 0.0;
};

RoutedRow route_one(const KernelTable& table, const RouterRule& rule, const Floats& scores,
                    Ids given = {}) {
  RoutedRow row{.ids = std::move(given),
                .weights = Floats(size_t(rule.top_k)),
                .p = Floats(size_t(rule.experts))};
  if (row.ids.empty()) row.ids.assign(size_t(rule.top_k), -1);
  row.sum = table.row_sums(scores.data(), rule.experts, row.p.data(), nullptr).sum;
  Floats scratch(size_t(route_scratch(rule)));
  route_row(table, rule, scores.data(), scratch.data(), row.ids.data(), row.weights.data());
  return row;
}

class Router : public OnEachIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, Router, testing::ValuesIn(available_isas()), name_of_isa_case);

TEST_P(Router, FB175_SoftmaxBeforeTopKWithAndWithoutNormalizing) {
  const Floats scores = {2.0f, 1.0f, 0.0f, -1.0f};
  const RoutedRow plain = route_one(table(), {.experts = 4, .top_k = 2}, scores);
  EXPECT_EQ(plain.ids, (Ids{0, 1}));
  EXPECT_NEAR(plain.weights[0], 0.6439, 5e-5);
  EXPECT_NEAR(plain.weights[1], 0.2369, 5e-5);
  const RoutedRow norm = route_one(table(), {.experts = 4, .top_k = 2, .normalize = true}, scores);
  EXPECT_EQ(norm.ids, (Ids{0, 1}));
  EXPECT_NEAR(norm.weights[0], 0.7311, 5e-5);
  EXPECT_NEAR(norm.weights[1], 0.2689, 5e-5);
}

// Few different values, so that most choices are between equals.
TEST_P(Router, ChoosesTheLargestAndOfEqualOnesTheLowestIds) {
  TestNumbers numbers(5);
  for (const int32_t experts : {1, 2, 7, 16, 17, 64, 128, 129, 257}) {
    for (const int32_t top_k : {1, 2, 8, experts}) {
      if (top_k > experts) continue;
      Floats scores(static_cast<size_t>(experts));
      for (float& score : scores) score = float(numbers.bits() % 6) - 3.0f;
      const RoutedRow row = route_one(table(), {.experts = experts, .top_k = top_k}, scores);
      Ids want(static_cast<size_t>(experts));
      std::iota(want.begin(), want.end(), 0);
      std::ranges::stable_sort(
          want, [&](int32_t a, int32_t b) { return row.p[size_t(a)] > row.p[size_t(b)]; });
      want.resize(size_t(top_k));
      EXPECT_EQ(row.ids, want) << experts << " experts, " << top_k;
      for (size_t s = 0; s < row.ids.size(); ++s) {
        EXPECT_EQ(row.weights[s], row.p[size_t(row.ids[s])] / float(row.sum));
      }
    }
  }
}

TEST_P(Router, GivenExpertsKeepTheirPlacesAndAreWeighedByTheRule) {
  TestNumbers numbers(6);
  const Floats scores = numbers.floats(40, -5.0f, 5.0f);
  const Ids given = {31, 0, 39, 7};
  const RoutedRow plain = route_one(table(), {.experts = 40, .top_k = 4}, scores, given);
  const RoutedRow norm =
      route_one(table(), {.experts = 40, .top_k = 4, .normalize = true}, scores, given);
  EXPECT_EQ(plain.ids, given);
  EXPECT_EQ(norm.ids, given);
  float sum = 0.0f;
  for (const int32_t id : given) sum = sum + plain.p[size_t(id)];
  for (size_t s = 0; s < given.size(); ++s) {
    EXPECT_EQ(plain.weights[s], plain.p[size_t(given[s])] / float(plain.sum));
    EXPECT_EQ(norm.weights[s], norm.p[size_t(given[s])] / sum);
  }
}

TEST_P(Router, ScoresThatAreNoNumbersGiveNoWeightAndStillValidExperts) {
  TestNumbers numbers(7);
  for (const float bad : {kTestNan, kTestInfinity}) {
    for (const size_t at : {0, 5, 19}) {
      Floats scores = numbers.floats(20);
      scores[at] = bad;
      const RoutedRow row =
          route_one(table(), {.experts = 20, .top_k = 6, .normalize = at == 5}, scores);
      for (const float weight : row.weights) EXPECT_TRUE(std::isnan(weight));
      Ids ids = row.ids;
      std::ranges::sort(ids);
      EXPECT_EQ(std::ranges::unique(ids).size(), 0u);
      EXPECT_TRUE(ids.front() >= 0 && ids.back() < 20);
    }
  }
}

TEST(Sigmoid, IsFiniteAndRightAtBothEnds) {
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_NEAR(sigmoid(1.0f), 0.731058578630, 1e-7);
  EXPECT_EQ(sigmoid(1000.0f), 1.0f);
  EXPECT_EQ(sigmoid(-2000.0f), 0.0f);
  EXPECT_NEAR(sigmoid(-20.0f), 2.0611536e-09, 1e-15);
  EXPECT_TRUE(std::isnan(sigmoid(kTestNan)));
}

// Experts with random weights.
struct Experts {
  Experts(TestNumbers& numbers, int64_t count, int64_t hidden, int64_t inner)
      : gate_up(packed(numbers, count, 2 * inner, hidden)),
        down(packed(numbers, count, hidden, inner)),
        stack_gate_up{{gate_up.data(), DType::kBFloat16, 2 * inner, hidden}, count},
        stack_down{{down.data(), DType::kBFloat16, hidden, inner}, count} {}

  static std::vector<std::byte> packed(TestNumbers& numbers, int64_t count, int64_t n, int64_t k) {
    const size_t each = packed_bytes(DType::kBFloat16, n, k);
    std::vector<std::byte> all(each * size_t(count));
    for (int64_t i = 0; i < count; ++i) {
      std::vector<uint16_t> rows(static_cast<size_t>(n * k));
      for (uint16_t& x : rows) x = bf16_from_float(numbers.between(-0.5f, 0.5f));
      pack_rows(all.data() + size_t(i) * each, DType::kBFloat16, n, k, 0, n,
                reinterpret_cast<const std::byte*>(rows.data()));
    }
    return all;
  }

  std::vector<std::byte> gate_up, down;
  PackedStack stack_gate_up, stack_down;
};

class ExpertOps : public testing::TestWithParam<int> {
 protected:
  ExpertOps() : pool_(GetParam()), context_{*select_kernels("auto"), &pool_} {}

  // Distinct experts for each row; the last one is never chosen, if there are others.
  Ids some_ids(int64_t rows, int64_t top_k, int64_t experts) {
    const int64_t most = std::max(top_k, experts - 1);
    Ids ids;
    for (int64_t r = 0; r < rows; ++r) {
      const auto first = int64_t(numbers_.bits() % uint64_t(most));
      for (int64_t s = 0; s < top_k; ++s) ids.push_back(int32_t((first + s * 5) % most));
    }
    return ids;
  }

  // What add_experts says it gives, one row and one expert after the other.
  void add_plainly(const ExpertArgs& args, Floats* sum) {
    const int64_t hidden = args.down.first.n;
    const int64_t inner = args.down.first.k;
    Floats activated(static_cast<size_t>(inner));
    Floats out(static_cast<size_t>(hidden));
    for (int64_t i = 0; i < args.rows * args.top_k; ++i) {
      const int64_t row = i / args.top_k;
      gated_linear(
          context_,
          {.x = args.x + row * hidden,
           .ldx = hidden,
           .w = args.gate_up.at(args.ids[i]),
           .bias = args.gate_up_bias ? args.gate_up_bias + args.ids[i] * 2 * inner : nullptr,
           .m = 1},
          args.gating, activated.data());
      linear(context_, {.x = activated.data(),
                        .ldx = inner,
                        .w = args.down.at(args.ids[i]),
                        .bias = args.down_bias ? args.down_bias + args.ids[i] * hidden : nullptr,
                        .y = out.data(),
                        .ldy = hidden,
                        .m = 1});
      for (int64_t c = 0; c < hidden; ++c) {
        float& to = (*sum)[size_t(row * hidden + c)];
        to = std::fma(out[size_t(c)], args.weights[i], to);
      }
    }
  }

  TestNumbers numbers_{18};
  ThreadPool pool_;
  KernelContext context_;
};
INSTANTIATE_TEST_SUITE_P(Threads, ExpertOps, testing::Values(1, 2, 3),
                         [](const auto& info) { return std::to_string(info.param); });

struct ExpertShape {
  int64_t rows, top_k, experts, hidden, inner;
};

// None, one row, few, inner sizes that end in a tile and do not, work for two and for many tasks an
// expert, and more rows than are taken at a time.
constexpr ExpertShape kExpertShapes[] = {
    {0, 2, 4, 8, 8},     {1, 1, 1, 20, 16},    {1, 4, 13, 33, 24},
    {7, 2, 4, 48, 32},   {64, 4, 7, 40, 13},   {70, 2, 4, 96, 128},
    {3, 2, 5, 320, 512}, {64, 2, 4, 320, 512}, {kExpertRows + 9, 2, 4, 12, 16}};

TEST_P(ExpertOps, ExpertsAddWhatEachRowGetsAlone) {
  for (const Profile profile : kProfiles) {
    context_.profile = profile;
    ExpertWorkspace workspace;
    for (const ExpertShape& shape : kExpertShapes) {
      const Experts experts(numbers_, shape.experts, shape.hidden, shape.inner);
      const Ids ids = some_ids(shape.rows, shape.top_k, shape.experts);
      const Floats weights = numbers_.floats(ids.size(), 0.0f, 1.0f);
      const Floats x = numbers_.floats(size_t(shape.rows * shape.hidden));
      const ExpertArgs args{.x = x.data(),
                            .rows = shape.rows,
                            .ids = ids.data(),
                            .weights = weights.data(),
                            .top_k = shape.top_k,
                            .gate_up = experts.stack_gate_up,
                            .down = experts.stack_down};
      Floats sum = numbers_.floats(x.size());
      Floats want = sum;
      add_plainly(args, &want);
      add_experts(context_, args, &workspace, sum.data());
      EXPECT_TRUE(all_same_bits(sum, want))
          << shape.rows << " rows, " << shape.experts << " experts, " << profile_name(profile);
    }
  }
}

TEST_P(ExpertOps, BiasesAreThoseOfTheExpert) {
  for (const Profile profile : kProfiles) {
    context_.profile = profile;
    ExpertWorkspace workspace;
    for (const int64_t inner : {13, 32}) {
      const ExpertShape shape{.rows = 40, .top_k = 3, .experts = 6, .hidden = 20, .inner = inner};
      const Experts experts(numbers_, shape.experts, shape.hidden, shape.inner);
      const Floats gate_up_bias = numbers_.floats(size_t(shape.experts * 2 * inner), -3.0f, 3.0f);
      const Floats down_bias = numbers_.floats(size_t(shape.experts * shape.hidden), -3.0f, 3.0f);
      const Ids ids = some_ids(shape.rows, shape.top_k, shape.experts);
      const Floats weights = numbers_.floats(ids.size(), 0.0f, 1.0f);
      const Floats x = numbers_.floats(size_t(shape.rows * shape.hidden));
      const ExpertArgs args{
          .x = x.data(),
          .rows = shape.rows,
          .ids = ids.data(),
          .weights = weights.data(),
          .top_k = shape.top_k,
          .gate_up = experts.stack_gate_up,
          .down = experts.stack_down,
          .gate_up_bias = gate_up_bias.data(),
          .down_bias = down_bias.data(),
          .gating = {.activation = Activation::kClampedSwiglu, .alpha = 1.7f, .limit = 2.0f}};
      Floats sum = numbers_.floats(x.size());
      Floats want = sum;
      add_plainly(args, &want);
      add_experts(context_, args, &workspace, sum.data());
      EXPECT_TRUE(all_same_bits(sum, want)) << inner << " " << profile_name(profile);
    }
  }
}

TEST_P(ExpertOps, RoutesOfRowsAreThoseOfRowsAlone) {
  constexpr int64_t kRows = 301;
  const RouterRule rule{.experts = 60, .top_k = 4, .normalize = true};
  const Floats scores = numbers_.floats(size_t(kRows * rule.experts), -4.0f, 4.0f);
  Ids ids(size_t(kRows * rule.top_k), -1);
  ids[8] = 59;  // the third row's are given
  ids[9] = 3;
  ids[10] = 4;
  ids[11] = 0;
  Floats weights(ids.size());
  const Ids before = ids;
  route(context_, rule, scores.data(), kRows, ids.data(), weights.data());
  for (int64_t r = 0; r < kRows; ++r) {
    const auto at = r * rule.top_k;
    const RoutedRow row =
        route_one(*context_.table, rule,
                  {scores.begin() + r * rule.experts, scores.begin() + (r + 1) * rule.experts},
                  {before.begin() + at, before.begin() + at + rule.top_k});
    EXPECT_EQ(row.ids, Ids(ids.begin() + at, ids.begin() + at + rule.top_k));
    EXPECT_EQ(row.weights, Floats(weights.begin() + at, weights.begin() + at + rule.top_k));
  }
  EXPECT_EQ((Ids{ids.begin() + 8, ids.begin() + 12}), (Ids{59, 3, 4, 0}));
}

TEST_P(ExpertOps, SigmoidOfAllIsThatOfEach) {
  for (const size_t n : {0, 1, 700}) {
    Floats x = numbers_.floats(n, -30.0f, 30.0f);
    Floats want = x;
    for (float& v : want) v = sigmoid(v);
    const ScopedFloatMode flush(FloatMode::kFlush);
    sigmoid_all(context_, int64_t(n), x.data());
    EXPECT_TRUE(all_same_bits(x, want));
  }
}

TEST_P(ExpertOps, WeightedRowsWithoutPlacesAreTheirOwn) {
  constexpr int64_t kRows = 90;
  constexpr int64_t kSize = 1031;
  const Floats y = numbers_.floats(kRows * kSize);
  const Floats weights = numbers_.floats(kRows);
  Floats sum = numbers_.floats(y.size());
  Floats want = sum;
  for (size_t i = 0; i < want.size(); ++i) {
    want[i] = std::fma(y[i], weights[i / kSize], want[i]);
  }
  add_weighted_rows(context_, {.y = y.data(), .weights = weights.data()}, kRows, kSize, sum.data());
  EXPECT_TRUE(all_same_bits(sum, want));
}

}  // namespace
}  // namespace rlgen::kernels
