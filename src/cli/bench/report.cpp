#include "cli/bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

std::string details_text(const Figure& figure) {
  std::string text;
  for (const auto& [name, value] : figure.details) {
    fmt::format_to(std::back_inserter(text), "{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

std::string figure_line(const Figure& figure) {
  if (!figure.skipped.empty()) {
    return fmt::format("{:<22} not measured: {}\n", figure.row, figure.skipped);
  }
  const bool limited = figure.limit > 0.0;
  return fmt::format("{:<22} {:>10.2f} {:<5} {:>10} {:>5} {:>4}  {:<22} {}\n", figure.row,
                     figure.value, figure.unit, limited ? fmt::format("{:.2f}", figure.limit) : "-",
                     limited ? fmt::format("{:.0f}%", 100.0 * figure.fraction) : "-", figure.runs,
                     limited ? figure.limited_by : "-", details_text(figure));
}

ordered_json figure_json(const Figure& figure) {
  if (!figure.skipped.empty()) return {{"row", figure.row}, {"skipped", figure.skipped}};
  ordered_json json = {{"row", figure.row}, {"value", figure.value}, {"unit", figure.unit}};
  if (figure.limit > 0.0) {
    json["limit"] = figure.limit;
    json["fraction"] = figure.fraction;
    json["limited_by"] = figure.limited_by;
  }
  json["runs"] = figure.runs;
  json["details"] = ordered_json::object();
  for (const auto& [name, value] : figure.details) json["details"][name] = value;
  return json;
}

}  // namespace

std::string report_text(const BenchReport& report) {
  const ShardInfo& info = report.info;
  std::string text = fmt::format("{}, {}, {} threads, numerics {}\n{}, {} CPUs\n", info.model,
                                 info.isa, info.num_threads, info.numerics.to_string(),
                                 report.machine.cpu, report.machine.cpus);
  auto out = std::back_inserter(text);
  if (report.limits.flops > 0.0) {
    fmt::format_to(out, "FMA peak       {:8.1f} GFLOP/s\n", report.limits.flops / 1e9);
  }
  if (report.limits.read_bytes > 0.0) {
    fmt::format_to(out, "read bandwidth {:8.1f} GB/s over {:.1f} MB (the weights of one step)\n",
                   report.limits.read_bytes / 1e9,
                   static_cast<double>(report.limits.buffer_bytes) / 1e6);
  }
  fmt::format_to(out, "prompts of {} tokens unless the row says otherwise, best of the runs\n\n",
                 report.options.prefill_tokens);
  fmt::format_to(out, "{:<22} {:>10} {:<5} {:>10} {:>5} {:>4}  {:<22} {}\n", "row", "value", "unit",
                 "limit", "of it", "runs", "limited by", "also");
  for (const Figure& figure : report.figures) text += figure_line(figure);
  return text;
}

ordered_json report_json(const BenchReport& report) {
  auto rows = ordered_json::array();
  for (const Figure& figure : report.figures) rows.push_back(figure_json(figure));
  return {{"schema", kBenchSchema},
          {"machine", to_json(report.machine)},
          {"model", report.info.model},
          {"numerics", report.info.numerics.to_string()},
          {"isa", report.info.isa},
          {"threads", report.info.num_threads},
          {"prefill_tokens", report.options.prefill_tokens},
          {"decode_tokens", report.options.decode_tokens},
          {"arrival_rate", report.options.arrival_rate},
          {"max_num_batched_tokens", report.options.engine.spec.max_num_batched_tokens},
          {"fma_flops_per_second", report.limits.flops},
          {"read_bytes_per_second", report.limits.read_bytes},
          {"read_buffer_bytes", report.limits.buffer_bytes},
          {"rows", rows}};
}

}  // namespace rlgen::cli
