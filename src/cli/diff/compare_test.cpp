#include "cli/diff/compare.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace rlgen::cli {
namespace {

using models::ForwardPoint;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Point kEmbedding{ForwardPoint::kEmbedding, -1};
constexpr Point kQkv{ForwardPoint::kQkv, 0};
constexpr Point kOutput{ForwardPoint::kOutput, 0};

float next(float value) { return std::nextafter(value, kInf); }

TEST(UlpDistance, CountsFloats) {
  EXPECT_EQ(ulp_distance(1.0f, 1.0f), 0);
  EXPECT_EQ(ulp_distance(1.0f, next(1.0f)), 1);
  EXPECT_EQ(ulp_distance(next(next(-2.0f)), -2.0f), 2);
  EXPECT_EQ(ulp_distance(0.0f, -0.0f), 1);
  EXPECT_EQ(ulp_distance(std::bit_cast<float>(1u), -std::bit_cast<float>(1u)), 3);
  EXPECT_EQ(ulp_distance(std::numeric_limits<float>::max(), kInf), 1);
  EXPECT_EQ(ulp_distance(kNan, -kNan), 0);
  EXPECT_EQ(ulp_distance(kNan, 1.0f), std::numeric_limits<int64_t>::max());
}

TEST(AbsoluteDifference, OfOrdinaryAndOtherValues) {
  EXPECT_EQ(absolute_difference(1.0f, -2.5f), 3.5);
  EXPECT_EQ(absolute_difference(kInf, kInf), 0.0);
  EXPECT_EQ(absolute_difference(kInf, -kInf), kInf);
  EXPECT_EQ(absolute_difference(kNan, 0.0f), kInf);
  EXPECT_EQ(absolute_difference(kNan, -kNan), 0.0);
  EXPECT_EQ(
      absolute_difference(std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()),
      2.0 * static_cast<double>(std::numeric_limits<float>::max()));
}

RowDifference rows(std::vector<float> left, std::vector<float> right, double tolerance = 0.0) {
  return compare_rows(left, right, tolerance);
}

TEST(CompareRows, FindsFirstAndLargest) {
  const RowDifference row =
      rows({1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, {1.0f, next(2.0f), 3.5f, 4.0f, 5.5f});
  EXPECT_EQ(row.values, 3);
  EXPECT_EQ(row.first.index, 1);
  EXPECT_EQ(row.first.left, 2.0f);
  EXPECT_EQ(row.first.right, next(2.0f));
  EXPECT_EQ(row.largest.index, 2);
  EXPECT_EQ(row.largest.right, 3.5f);
  EXPECT_EQ(row.largest_absolute, 0.5);
  EXPECT_EQ(row.largest_ulp, ulp_distance(3.0f, 3.5f));
}

TEST(CompareRows, BitsDecideWithoutATolerance) {
  EXPECT_EQ(rows({0.0f}, {-0.0f}).values, 1);
  EXPECT_EQ(rows({0.0f}, {-0.0f}).largest_absolute, 0.0);
  EXPECT_EQ(rows({kNan}, {-kNan}).values, 0);
  EXPECT_EQ(rows({kNan}, {0.0f}).values, 1);
  EXPECT_EQ(rows({kInf}, {kInf}).values, 0);
}

TEST(CompareRows, ToleranceLetsPassWhatIsNotAboveIt) {
  EXPECT_EQ(rows({1.0f, 2.0f}, {1.25f, 2.5f}, 0.25).values, 1);
  EXPECT_EQ(rows({1.0f, 2.0f}, {1.25f, 2.5f}, 0.25).first.index, 1);
  EXPECT_EQ(rows({0.0f}, {-0.0f}, 1e-9).values, 0);
  EXPECT_EQ(rows({kNan, kInf}, {0.0f, -kInf}, 1e30).values, 2);
}

// A sequence whose rows have one value each; a NaN stands for a missing row.
SequenceTrace sequence(std::map<Point, std::vector<float>> points) {
  SequenceTrace trace;
  for (const auto& [point, values] : points) {
    trace.token_ids.resize(values.size());
    PointRows rows(int64_t(values.size()), 1);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isnan(values[i])) rows.set(int64_t(i), &values[i]);
    }
    trace.points.emplace(point, std::move(rows));
  }
  return trace;
}

TEST(CompareTraces, SmallestPositionThenEarliestPlace) {
  const Trace left = {sequence({{kEmbedding, {1, 1, 1}}, {kQkv, {1, 1, 1}}, {kOutput, {1, 1, 1}}})};
  const Trace right = {
      sequence({{kEmbedding, {1, 1, 4}}, {kQkv, {1, 2, 2}}, {kOutput, {1, 3, 9}}})};
  const auto difference = compare_traces(left, right, 0.0);
  ASSERT_TRUE(difference.ok()) << difference.status();
  ASSERT_TRUE(difference->first);
  EXPECT_EQ(difference->first->position, 1);
  EXPECT_EQ(difference->first->point, kQkv);
  EXPECT_EQ(difference->rows, 9);
  ASSERT_EQ(difference->points.size(), 3);
  const PointDifference& output = difference->points[2];
  EXPECT_EQ(output.point, kOutput);
  EXPECT_EQ(output.rows, 3);
  EXPECT_EQ(output.rows_different, 2);
  EXPECT_EQ(output.values_different, 2);
  EXPECT_EQ(output.largest_absolute, 8.0);
  EXPECT_EQ(output.position, 2);
  EXPECT_EQ(output.value.right, 9.0f);
}

TEST(CompareTraces, SequencesComeBeforePositions) {
  const Trace left = {sequence({{kQkv, {1, 1}}}), sequence({{kQkv, {1, 1}}})};
  const Trace right = {sequence({{kQkv, {1, 2}}}), sequence({{kQkv, {2, 1}}})};
  const auto difference = *compare_traces(left, right, 0.0);
  EXPECT_EQ(difference.first->sequence, 0);
  EXPECT_EQ(difference.first->position, 1);
  EXPECT_FALSE(compare_traces(left, left, 0.0)->first);
  EXPECT_FALSE(compare_traces(left, right, 1.0)->first);
}

TEST(CompareTraces, WhatOneSideLacksIsCountedNotCompared) {
  const Trace left = {sequence({{kEmbedding, {1, 1, 1}}, {kQkv, {1, 1, 1}}})};
  const Trace right = {sequence({{kQkv, {kNan, kNan, 1}}, {kOutput, {1, 1, 1}}})};
  const auto difference = *compare_traces(left, right, 0.0);
  EXPECT_FALSE(difference.first);
  EXPECT_EQ(difference.rows, 1);
  EXPECT_EQ(difference.rows_one_sided, 2);
  EXPECT_EQ(difference.one_sided, (std::vector<Point>{kEmbedding, kOutput}));
}

TEST(CompareTraces, RefusesWhatCannotBeCompared) {
  const Trace one = {sequence({{kQkv, {1, 1}}})};
  Trace other_ids = one;
  other_ids[0].token_ids[1] = 7;
  Trace wide = one;
  wide[0].points[kQkv] = PointRows(2, 3);
  EXPECT_FALSE(compare_traces(one, {}, 0.0).ok());
  EXPECT_FALSE(compare_traces(one, other_ids, 0.0).ok());
  const Status widths = compare_traces(one, wide, 0.0).status();
  EXPECT_NE(message_of(widths).find("layers.0.qkv has 1 values on the left and 3"),
            std::string::npos)
      << widths;
  const Trace nothing = {sequence({{kQkv, {kNan, kNan}}})};
  EXPECT_FALSE(compare_traces(one, nothing, 0.0).ok());
}

}  // namespace
}  // namespace rlgen::cli
