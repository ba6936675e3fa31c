#include "cli/diff/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace rlgen::cli {
namespace {

// A whole number that grows with the float.
int64_t rank(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto magnitude = static_cast<int64_t>(bits & 0x7fffffffu);
  return (bits >> 31) != 0 ? -1 - magnitude : magnitude;
}

bool differ(float left, float right, double tolerance) {
  if (std::bit_cast<uint32_t>(left) == std::bit_cast<uint32_t>(right)) return false;
  if (std::isnan(left) && std::isnan(right)) return false;
  return tolerance <= 0.0 || absolute_difference(left, right) > tolerance;
}

// Compares trace with trace, place by place.
class Comparison {
 public:
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  Status add(int32_t sequence, const SequenceTrace& left, const SequenceTrace& right) {
    for (const auto& [point, rows] : right.points) {
      if (!left.points.contains(point)) one_sided_.insert(point);
    }
    for (const auto& [point, rows] : left.points) {
      const auto other = right.points.find(point);
      if (other == right.points.end()) {
        one_sided_.insert(point);
      } else {
        RLGEN_RETURN_IF_ERROR(add_point(sequence, point, rows, other->second));
      }
    }
    return absl::OkStatus();
  }

  TraceDifference result() && {
    for (auto& [point, difference] : points_) {
      result_.rows += difference.rows;
      result_.points.push_back(difference);
    }
    result_.one_sided.assign(one_sided_.begin(), one_sided_.end());
    return std::move(result_);
  }

 private:
  Status add_point(int32_t sequence, const Point& point, const PointRows& left,
                   const PointRows& right) {
    if (left.width() != right.width()) {
      return absl::InvalidArgumentError(
          fmt::format("{} has {} values on the left and {} on the right; both sides must be of one "
                      "architecture",
                      point_name(point), left.width(), right.width()));
    }
    const int64_t positions = std::max(left.positions(), right.positions());
    for (int64_t position = 0; position < positions; ++position) {
      if (left.has(position) != right.has(position)) ++result_.rows_one_sided;
      if (!left.has(position) || !right.has(position)) continue;
      add_row({.sequence = sequence,
               .position = position,
               .point = point,
               .row = compare_rows(left.row(position), right.row(position), tolerance_)});
    }
    return absl::OkStatus();
  }

  void add_row(const FirstDifference& at) {
    PointDifference& point = points_[at.point];
    point.point = at.point;
    ++point.rows;
    if (at.row.values == 0) return;
    ++point.rows_different;
    point.values_different += at.row.values;
    point.largest_ulp = std::max(point.largest_ulp, at.row.largest_ulp);
    if (point.rows_different == 1 || at.row.largest_absolute > point.largest_absolute) {
      point.largest_absolute = at.row.largest_absolute;
      point.sequence = at.sequence;
      point.position = at.position;
      point.value = at.row.largest;
    }
    const auto key = [](const FirstDifference& one) {
      return std::tie(one.sequence, one.position, one.point);
    };
    if (!result_.first || key(at) < key(*result_.first)) result_.first = at;
  }

  const double tolerance_;
  std::map<Point, PointDifference> points_;
  std::set<Point> one_sided_;
  TraceDifference result_;
};

}  // namespace

int64_t ulp_distance(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) == std::isnan(b) ? 0 : std::numeric_limits<int64_t>::max();
  }
  return std::abs(rank(a) - rank(b));
}

double absolute_difference(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) == std::isnan(b) ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return a == b ? 0.0 : std::abs(static_cast<double>(a) - static_cast<double>(b));
}

RowDifference compare_rows(std::span<const float> left, std::span<const float> right,
                           double tolerance) {
  RowDifference row;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!differ(left[i], right[i], tolerance)) continue;
    const ValuePair value{static_cast<int64_t>(i), left[i], right[i]};
    const double absolute = absolute_difference(left[i], right[i]);
    if (++row.values == 1) row.first = value;
    if (row.values == 1 || absolute > row.largest_absolute) {
      row.largest_absolute = absolute;
      row.largest = value;
    }
    row.largest_ulp = std::max(row.largest_ulp, ulp_distance(left[i], right[i]));
  }
  return row;
}

StatusOr<TraceDifference> compare_traces(const Trace& left, const Trace& right, double tolerance) {
  if (left.size() != right.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} sequences on the left and {} on the right", left.size(), right.size()));
  }
  Comparison comparison(tolerance);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].token_ids != right[i].token_ids) {
      return absl::InvalidArgumentError(
          fmt::format("sequence {} has other token ids on the two sides", i));
    }
    RLGEN_RETURN_IF_ERROR(comparison.add(static_cast<int32_t>(i), left[i], right[i]));
  }
  TraceDifference difference = std::move(comparison).result();
  if (difference.rows > 0) return difference;
  return absl::InvalidArgumentError("no position was computed on both sides");
}

}  // namespace rlgen::cli
