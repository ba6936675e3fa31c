#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "cli/diff/trace.h"

namespace rlgen::cli {

// Floats from `a` to `b`, counted along the line of all floats; -0 and +0 are one apart. A NaN is
// further from every number than any two numbers are from each other, and 0 from a NaN.
int64_t ulp_distance(float a, float b);

// |a - b|; infinite where exactly one is a NaN, 0 for two.
double absolute_difference(float a, float b);

// A value that the two sides disagree on, or agree on.
struct ValuePair {
  int64_t index = 0;  // in the row
  float left = 0.0f;
  float right = 0.0f;
};

struct RowDifference {
  int64_t values = 0;  // that differ
  ValuePair first;     // the one with the lowest index
  ValuePair largest;   // by absolute difference, the lowest index on a tie
  double largest_absolute = 0.0;
  int64_t largest_ulp = 0;
};

// Values differ when their bits do and, with a tolerance above 0, when they are further apart than
// that. Two NaNs are equal, whatever their bits (docs/numbers.md). The rows have equal lengths.
RowDifference compare_rows(std::span<const float> left, std::span<const float> right,
                           double tolerance);

// One place over all sequences.
struct PointDifference {
  Point point;
  int64_t rows = 0;  // compared
  int64_t rows_different = 0;
  int64_t values_different = 0;
  double largest_absolute = 0.0;
  int64_t largest_ulp = 0;
  int32_t sequence = 0;  // where largest_absolute is, with the next two
  int64_t position = 0;
  ValuePair value;
};

// The first difference: of the first sequence that has one, the smallest position, there the place
// that is computed first.
struct FirstDifference {
  int32_t sequence = 0;
  int64_t position = 0;
  Point point;
  RowDifference row;
};

struct TraceDifference {
  std::optional<FirstDifference> first;
  std::vector<PointDifference> points;  // those that both sides have, in order of computation
  std::vector<Point> one_sided;         // places that only one side has
  int64_t rows = 0;                     // compared, over all places
  int64_t rows_one_sided = 0;           // not compared, in places that both sides have
};

// Compares traces of the same sequences. kInvalidArgument where a place has other widths on the two
// sides, or nothing is there on both.
StatusOr<TraceDifference> compare_traces(const Trace& left, const Trace& right, double tolerance);

}  // namespace rlgen::cli
