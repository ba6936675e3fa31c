#include "cli/diff/trace_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/progress.h"

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

std::string float_text(float value) {
  return fmt::format("{} (0x{:08x})", value, std::bit_cast<uint32_t>(value));
}

std::string ulp_text(int64_t ulp) {
  return ulp == std::numeric_limits<int64_t>::max() ? "nan" : std::to_string(ulp);
}

std::string element_text(const TraceReport& report, const Point& point, const ValuePair& value) {
  const std::string name = element_name(point, value.index, report.spec);
  return name.empty() ? fmt::format("value {}", value.index)
                      : fmt::format("value {} ({})", value.index, name);
}

void print_pair(const TraceReport& report, std::string_view what, const Point& point,
                const ValuePair& value) {
  fmt::print("  {} {}\n    left  {}\n    right {}\n", what, element_text(report, point, value),
             float_text(value.left), float_text(value.right));
}

int32_t token_at(const TraceReport& report, int32_t sequence, int64_t position) {
  return report.sequences[static_cast<size_t>(sequence)][static_cast<size_t>(position)];
}

void print_first(const TraceReport& report) {
  const FirstDifference& first = *report.difference.first;
  fmt::print("the first difference: sequence {}, position {} (token {}), {}\n", first.sequence,
             first.position, token_at(report, first.sequence, first.position),
             point_name(first.point));
  const auto point =
      std::ranges::find(report.difference.points, first.point, &PointDifference::point);
  fmt::print("  values of this row that differ: {}; rows of this place that differ: {} of {}\n",
             first.row.values, point->rows_different, point->rows);
  print_pair(report, "the first is", first.point, first.row.first);
  if (first.row.values > 1) print_pair(report, "the largest is", first.point, first.row.largest);
}

void print_table(const TraceDifference& difference) {
  fmt::print("\n{:<26} {:>7} {:>9} {:>9} {:>11} {:>10}  {}\n", "place", "rows", "different",
             "values", "largest", "ULP", "where the largest is");
  for (const PointDifference& point : difference.points) {
    if (point.rows_different == 0) continue;
    fmt::print("{:<26} {:>7} {:>9} {:>9} {:>11.3g} {:>10}  sequence {} position {} value {}\n",
               point_name(point.point), point.rows, point.rows_different, point.values_different,
               point.largest_absolute, ulp_text(point.largest_ulp), point.sequence, point.position,
               point.value.index);
  }
  const auto equal = std::ranges::count(difference.points, 0, &PointDifference::rows_different);
  fmt::print("{} of {} places are equal\n", equal, difference.points.size());
}

void print_notes(const TraceReport& report) {
  const TraceDifference& difference = report.difference;
  if (!difference.one_sided.empty()) {
    std::vector<std::string> names;
    for (const Point& point : difference.one_sided) names.push_back(point_name(point));
    fmt::print("not compared, there on one side only: {}\n", fmt::join(names, ", "));
  }
  if (difference.rows_one_sided > 0) {
    fmt::print("not compared, computed on one side only: {}\n",
               counted(difference.rows_one_sided, "row"));
  }
  for (const EarlyEnd& end : report.ends) {
    fmt::print("{}: sequence {} ended early: {}\n", end.side, end.sequence, message_of(end.why));
  }
}

void print_trace(const TraceReport& report) {
  int64_t positions = 0;
  for (const TokenIds& ids : report.sequences) positions += static_cast<int64_t>(ids.size());
  fmt::print("left   {}\nright  {}\n{}, {}; {} compared at {}", report.left, report.right,
             counted(static_cast<int64_t>(report.sequences.size()), "sequence"),
             counted(positions, "position"), counted(report.difference.rows, "row"),
             counted(static_cast<int64_t>(report.difference.points.size()), "place"));
  if (report.tolerance > 0.0) {
    fmt::print(", differences up to {} let pass", report.tolerance);
  }
  fmt::print("\n\n");
  if (report.difference.first) {
    print_first(report);
    print_table(report.difference);
  } else {
    fmt::print("{}\n", report.tolerance > 0.0 ? "no larger difference" : "all bits are equal");
  }
  print_notes(report);
}

// JSON knows no infinity and no NaN: those become strings.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0.0 ? "inf" : "-inf";
}

ordered_json number(float value) {
  if (!std::isfinite(value)) return number(static_cast<double>(value));
  return ordered_json::parse(fmt::format("{}", value));
}

ordered_json pair_json(const TraceReport& report, const Point& point, const ValuePair& value) {
  return {{"index", value.index},
          {"element", element_name(point, value.index, report.spec)},
          {"left", number(value.left)},
          {"right", number(value.right)},
          {"left_bits", fmt::format("0x{:08x}", std::bit_cast<uint32_t>(value.left))},
          {"right_bits", fmt::format("0x{:08x}", std::bit_cast<uint32_t>(value.right))}};
}

ordered_json ulp_json(int64_t ulp) {
  if (ulp == std::numeric_limits<int64_t>::max()) return "nan";
  return ulp;
}

ordered_json first_json(const TraceReport& report) {
  if (!report.difference.first) return nullptr;
  const FirstDifference& first = *report.difference.first;
  return {{"sequence", first.sequence},
          {"position", first.position},
          {"token_id", token_at(report, first.sequence, first.position)},
          {"place", point_name(first.point)},
          {"values", first.row.values},
          {"largest_difference", number(first.row.largest_absolute)},
          {"largest_ulp", ulp_json(first.row.largest_ulp)},
          {"first_value", pair_json(report, first.point, first.row.first)},
          {"largest_value", pair_json(report, first.point, first.row.largest)}};
}

ordered_json point_json(const TraceReport& report, const PointDifference& point) {
  ordered_json object = {{"place", point_name(point.point)},
                         {"rows", point.rows},
                         {"rows_different", point.rows_different},
                         {"values_different", point.values_different}};
  if (point.rows_different == 0) return object;
  object["largest_difference"] = number(point.largest_absolute);
  object["largest_ulp"] = ulp_json(point.largest_ulp);
  object["sequence"] = point.sequence;
  object["position"] = point.position;
  object["value"] = pair_json(report, point.point, point.value);
  return object;
}

void print_json(const TraceReport& report) {
  auto places = ordered_json::array();
  for (const auto& point : report.difference.points) places.push_back(point_json(report, point));
  auto one_sided = ordered_json::array();
  for (const Point& point : report.difference.one_sided) one_sided.push_back(point_name(point));
  auto ends = ordered_json::array();
  for (const EarlyEnd& end : report.ends) {
    ends.push_back(
        {{"side", end.side}, {"sequence", end.sequence}, {"message", message_of(end.why)}});
  }
  const ordered_json object = {{"left", report.left},
                               {"right", report.right},
                               {"tolerance", report.tolerance},
                               {"equal", report.equal()},
                               {"rows", report.difference.rows},
                               {"rows_one_sided", report.difference.rows_one_sided},
                               {"places_one_sided", std::move(one_sided)},
                               {"ended_early", std::move(ends)},
                               {"first", first_json(report)},
                               {"places", std::move(places)}};
  fmt::print("{}\n", object.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace

bool TraceReport::equal() const {
  if (difference.first) return false;
  return std::ranges::all_of(ends, [&](const EarlyEnd& end) {
    return std::ranges::any_of(ends, [&](const EarlyEnd& other) {
      return other.side != end.side && other.sequence == end.sequence && other.why == end.why;
    });
  });
}

void print_trace_report(const TraceReport& report, bool json) {
  if (json) return print_json(report);
  print_trace(report);
}

}  // namespace rlgen::cli
