#pragma once

#include <string>
#include <vector>

#include "cli/diff/compare.h"

namespace rlgen::cli {

// A sequence that ended early on one side.
struct EarlyEnd {
  size_t sequence = 0;
  std::string side;
  Status why;
};

struct TraceReport {
  std::string left, right;  // what the sides are, in words
  double tolerance = 0.0;
  std::vector<TokenIds> sequences;
  TraceDifference difference;
  std::vector<EarlyEnd> ends;
  models::DecoderSpec spec;

  // No difference beyond the tolerance, and every sequence ended alike on both sides.
  bool equal() const;
};

// Prints to standard output, as text for people or JSON for programs (docs/diff.md).
void print_trace_report(const TraceReport& report, bool json);

}  // namespace rlgen::cli
