#pragma once

#include <string>

#include "cli/bench/report.h"

namespace rlgen::cli {

// The fractions of the limits as bars, an SVG image. Rows without a limit have no bar.
std::string plot_svg(const BenchReport& report);

}  // namespace rlgen::cli
