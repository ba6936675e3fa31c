#include "kernels/sampling.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace rlgen::kernels {
namespace {

const KernelTable& best_table() { return *kernel_table(available_isas().back()); }

// Rows of weights, ordinary and awkward, by name.
std::map<std::string, std::vector<float>> rows() {
  std::map<std::string, std::vector<float>> all;
  const auto random = [](int64_t n, double spread) {
    std::vector<float> logits(n);
    for (int64_t i = 0; i < n; ++i) {
      const double u = uniform(99, 0, static_cast<uint64_t>(i)) + 1e-9;
      logits[i] = static_cast<float>(spread * std::log(u));
    }
    std::vector<float> p(n);
    best_table().row_sums(logits.data(), n, p.data(), nullptr);
    return p;
  };
  all["small"] = {1.0f, 0.5f, 0.25f, 0.125f};
  all["single"] = {1.0f};
  all["ordinary"] = random(49152, 2.0);
  all["wide"] = random(151936, 1.0);
  all["flat"] = random(5000, 0.01);
  all["steep"] = random(5000, 30.0);
  all["equal"] = std::vector<float>(49152, 1.0f);
  all["one hot"] = std::vector<float>(5000, 0.0f);
  all["one hot"][3210] = 1.0f;
  all["few ties"] = std::vector<float>(1000, 0.25f);
  all["few ties"][500] = 1.0f;
  all["tiny"] = std::vector<float>(300, 0x1p-149f);
  all["tiny"][7] = 1.0f;
  all["tiny"][8] = 0x1p-126f;
  return all;
}

// Indices, largest weight first, ties by lower index.
std::vector<int64_t> sorted(const std::vector<float>& p) {
  std::vector<int64_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return p[a] > p[b]; });
  return order;
}

std::vector<int64_t> survivors(const std::vector<float>& p, Threshold keep) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < p.size(); ++i) {
    if (survives(keep, p[i], static_cast<int64_t>(i))) kept.push_back(static_cast<int64_t>(i));
  }
  return kept;
}

std::vector<int64_t> first_of(std::vector<int64_t> order, size_t count) {
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

int64_t length(const std::vector<float>& p) { return static_cast<int64_t>(p.size()); }

// By the sum of the grid, as the sampler gives it.
Threshold top_p_of(const KernelTable& table, std::vector<float> p, float top_p) {
  const double whole = table.row_keep(p.data(), length(p), {}, nullptr);
  return top_p_threshold(table, p.data(), length(p), top_p, whole);
}

TEST(TopK, EqualsTheSortedReference) {
  for (const auto& [name, p] : rows()) {
    const auto order = sorted(p);
    for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{20}, int64_t{257}, int64_t{1000},
                            length(p) / 2, length(p) - 1, length(p)}) {
      if (k < 1 || k > length(p)) continue;
      const Threshold keep = top_k_threshold(best_table(), p.data(), length(p), k);
      ASSERT_EQ(survivors(p, keep), first_of(order, static_cast<size_t>(k))) << name << " " << k;
    }
  }
}

// With weights that are sums of few powers of two every order of summation is exact.
TEST(TopP, EqualsTheSortedReferenceWhereSumsAreExact) {
  std::vector<float> p(2000);
  for (size_t i = 0; i < p.size(); ++i) {
    p[i] = static_cast<float>(std::floor(64 * uniform(5, 0, i)) / 64);
  }
  p[77] = 1.0f;
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  const auto order = sorted(p);
  for (const float top_p : {0.01f, 0.25f, 0.5f, 0.75f, 0.875f, 0.99f, 1.0f}) {
    double mass = 0.0;
    size_t count = 0;
    while (mass < double{top_p} * total) mass += p[order[count++]];
    const Threshold keep = top_p_of(best_table(), p, top_p);
    ASSERT_EQ(survivors(p, keep), first_of(order, count)) << top_p;
  }
}

// Sums of n doubles in two orders differ by at most n roundings of their total.
TEST(TopP, IsTheSmallestSetThatReachesTheMass) {
  for (const auto& [name, p] : rows()) {
    const auto order = sorted(p);
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    const double slack = total * static_cast<double>(p.size()) * 0x1p-52;
    for (const float top_p : {1e-6f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999999f}) {
      const Threshold keep = top_p_of(best_table(), p, top_p);
      const auto kept = survivors(p, keep);
      ASSERT_FALSE(kept.empty());
      ASSERT_EQ(kept, first_of(order, kept.size())) << name << " " << top_p;
      double mass = 0.0;
      for (const int64_t i : kept) mass += double{p[i]};
      const double least = double{p[order[kept.size() - 1]]};
      EXPECT_GE(mass, double{top_p} * total - slack) << name << " " << top_p;
      EXPECT_LE(mass - least, double{top_p} * total + slack) << name << " " << top_p;
      EXPECT_GT(least, 0.0) << name;
    }
  }
}

TEST(TopP, CutsTiesByIndex) {
  const std::vector<float> p(8, 1.0f);
  EXPECT_EQ(survivors(p, top_p_of(best_table(), p, 0.5f)), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(survivors(p, top_p_of(best_table(), p, 0.51f)), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

bool same(Threshold a, Threshold b) { return a.value == b.value && a.last_tie == b.last_tie; }

TEST(Thresholds, AreTheSameOnEveryIsa) {
  for (const auto& [name, p] : rows()) {
    for (const Isa isa : available_isas()) {
      const KernelTable& table = *kernel_table(isa);
      const int64_t k = (length(p) + 2) / 3;
      EXPECT_TRUE(same(top_k_threshold(table, p.data(), length(p), k),
                       top_k_threshold(best_table(), p.data(), length(p), k)))
          << name;
      EXPECT_TRUE(same(top_p_of(table, p, 0.8f), top_p_of(best_table(), p, 0.8f))) << name;
    }
  }
}

TEST(Thresholds, TheStricterOfTwoKeepsWhatBothKeep) {
  const std::vector<float> p = {0.5f, 0.25f, 1.0f, 0.5f, 0.25f, 0.0f, 0.5f};
  std::vector<Threshold> all = {{}, {0.0f, 5}, {0.25f, 1}, {0.25f, 6}, {0.5f, 0}, {0.5f, 3}};
  for (const Threshold a : all) {
    for (const Threshold b : all) {
      std::vector<int64_t> both;
      for (const int64_t i : survivors(p, a)) {
        if (survives(b, p[i], i)) both.push_back(i);
      }
      EXPECT_EQ(survivors(p, stricter(a, b)), both);
    }
  }
}

RC_GTEST_PROP(ThresholdProperty, TopKOfFewDistinctWeights, ()) {
  const auto numbers =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5)));
  std::vector<float> p;
  for (const int number : numbers) p.push_back(static_cast<float>(number) / 4.0f);
  const auto k = *rc::gen::inRange<int64_t>(1, length(p) + 1);
  const Threshold keep = top_k_threshold(best_table(), p.data(), length(p), k);
  RC_ASSERT(survivors(p, keep) == first_of(sorted(p), static_cast<size_t>(k)));
}

std::vector<double> blocks_of(std::vector<float> p) {
  std::vector<double> blocks(static_cast<size_t>(row_blocks(length(p))));
  best_table().row_keep(p.data(), length(p), {}, blocks.data());
  return blocks;
}

int32_t draw_from(const std::vector<float>& p, double u) {
  return draw(p.data(), blocks_of(p).data(), length(p), u);
}

TEST(Draw, FollowsTheRunningSum) {
  const std::vector<float> p = {0.0f, 0.5f, 0.0f, 0.25f, 0.25f, 0.0f};
  EXPECT_EQ(draw_from(p, 0.0), 1);
  EXPECT_EQ(draw_from(p, std::nextafter(0.5, 0.0)), 1);
  EXPECT_EQ(draw_from(p, 0.5), 3);
  EXPECT_EQ(draw_from(p, 0.75), 4);
  EXPECT_EQ(draw_from(p, 1.0 - 0x1p-53), 4);
}

TEST(Draw, NeverReturnsAWeightOfZero) {
  for (const int64_t n : {1, 16, 1000, 1024, 1025, 5000}) {
    for (int64_t at = 0; at < n; at += n / 7 + 1) {
      std::vector<float> p(static_cast<size_t>(n), 0.0f);
      p[at] = 0.3f;
      for (const double u : {0.0, 0.5, 1.0 - 0x1p-53}) EXPECT_EQ(draw_from(p, u), at);
    }
  }
}

TEST(Draw, TakesTheLastSurvivorWhereRoundingRunsOffTheEnd) {
  std::vector<float> p(3000);
  for (size_t i = 0; i < 2500; ++i) p[i] = static_cast<float>(uniform(3, 1, i)) * 0.1f + 0.01f;
  // Blocks that claim more than they hold: no running sum reaches the last target.
  auto blocks = blocks_of(p);
  for (double& block : blocks) block *= 1.0 + 0x1p-40;
  EXPECT_EQ(draw(p.data(), blocks.data(), length(p), 1.0 - 0x1p-53), 2499);
}

// Sum over cells of (observed - expected)^2 / expected.
double chi_square(const std::vector<float>& p, int draws) {
  const auto blocks = blocks_of(p);
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  std::vector<int> count(p.size());
  for (int i = 0; i < draws; ++i) {
    ++count[draw(p.data(), blocks.data(), length(p), uniform(2024, 0, static_cast<uint64_t>(i)))];
  }
  double sum = 0.0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = draws * double{p[i]} / total;
    if (expected > 0.0) sum += (count[i] - expected) * (count[i] - expected) / expected;
  }
  return sum;
}

// 0.9999 quantiles of chi-square: 27.9 for 7 degrees of freedom; for 2,999 by the normal
// approximation 2999 + 3.72 sqrt(2 * 2999) = 3287.
TEST(Draw, HasTheFrequenciesOfTheWeights) {
  EXPECT_LT(chi_square({1.0f, 0.5f, 0.01f, 0.2f, 0.0f, 0.7f, 0.3f, 0.9f, 0.1f}, 100000), 27.9);
  std::vector<float> p(3000);
  for (size_t i = 0; i < p.size(); ++i) p[i] = 0.5f + 0.5f * static_cast<float>(uniform(8, 0, i));
  EXPECT_LT(chi_square(p, 200000), 3287.0);
}

TEST(RowLogprob, IsTheDifferenceInDouble) {
  RowSums sums;
  sums.max = 2.0f;
  sums.sum = 1.0 + std::exp(-1.0) + std::exp(-2.0) + std::exp(-3.0);
  EXPECT_NEAR(row_logprob(sums, 2.0f), -0.4401897, 1e-7);
  EXPECT_NEAR(row_logprob(sums, -1.0f), -3.4401897, 3e-7);
  sums.max = 100.0f;
  sums.sum = 1.0;
  EXPECT_EQ(row_logprob(sums, 100.0f), 0.0f);
  EXPECT_EQ(row_logprob(sums, -100.0f), -200.0f);
}

}  // namespace
}  // namespace rlgen::kernels
