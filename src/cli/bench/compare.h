#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace rlgen::cli {

// A report as JSON text, checked. kInvalidArgument, with `name`, where it is no report of the
// schema that this version writes.
StatusOr<nlohmann::ordered_json> parse_report(const std::string& text, const std::string& name);

// A line for each row of either report: both values and how many times as good the new one is, and
// the same of the fractions of the limit. Before them a warning for each difference between the
// machines, builds, models and options, since figures of two machines say nothing of the code.
std::string compare_text(const nlohmann::ordered_json& before, const nlohmann::ordered_json& now);

}  // namespace rlgen::cli
