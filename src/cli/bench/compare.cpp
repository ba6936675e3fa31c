#include "cli/bench/compare.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/bench/figure.h"
#include "cli/bench/report.h"

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 8> kSameKeys = {
    "model",          "numerics",      "isa",          "threads",
    "prefill_tokens", "decode_tokens", "arrival_rate", "max_num_batched_tokens"};

bool row_is_sound(const ordered_json& row) {
  if (!row.is_object() || !row.contains("row") || !row["row"].is_string()) return false;
  if (row.contains("skipped")) return row["skipped"].is_string();
  return row.contains("value") && row["value"].is_number() && row.contains("unit") &&
         row["unit"].is_string() && (!row.contains("fraction") || row["fraction"].is_number());
}

const ordered_json* find_row(const ordered_json& report, const std::string& name) {
  for (const ordered_json& row : report["rows"]) {
    if (row["row"] == name) return &row;
  }
  return nullptr;
}

bool measured(const ordered_json* row) { return row != nullptr && !row->contains("skipped"); }

void warn(const std::string& what, const ordered_json& before, const ordered_json& now,
          std::string* text) {
  if (before == now) return;
  *text += fmt::format("warning: {} was {} and is {}\n", what, before.dump(), now.dump());
}

std::string row_value_text(const ordered_json* row) {
  return measured(row) ? fmt::format("{:.2f}", row->at("value").get<double>()) : "-";
}

std::string comparison_line(const std::string& name, const ordered_json* before,
                            const ordered_json* now) {
  std::string text =
      fmt::format("{:<22} {:>12} {:>12}", name, row_value_text(before), row_value_text(now));
  if (!measured(before) || !measured(now)) return text + "\n";
  const auto unit = now->at("unit").get<std::string>();
  if (before->at("unit") != unit) return text + "  other unit\n";
  text += fmt::format(
      " {:<5} {:>6.2f}x", unit,
      improvement(unit, before->at("value").get<double>(), now->at("value").get<double>()));
  if (before->contains("fraction") && now->contains("fraction")) {
    text += fmt::format("  {:>4.0f}% {:>4.0f}%", 100.0 * before->at("fraction").get<double>(),
                        100.0 * now->at("fraction").get<double>());
  }
  return text + "\n";
}

}  // namespace

StatusOr<ordered_json> parse_report(const std::string& text, const std::string& name) {
  ordered_json report = ordered_json::parse(text, nullptr, false);
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}; it must be a file that 'rlgen bench --json' wrote", name, what));
  };
  if (!report.is_object()) return wrong("no JSON object");
  if (report.value("schema", ordered_json()) != kBenchSchema) {
    return wrong(fmt::format("\"schema\" is not {}", kBenchSchema));
  }
  if (!report.contains("machine") || !report["machine"].is_object()) return wrong("no \"machine\"");
  if (!report.contains("rows") || !report["rows"].is_array()) return wrong("no \"rows\"");
  for (const ordered_json& row : report["rows"]) {
    if (!row_is_sound(row)) return wrong(fmt::format("a row is {}", row.dump()));
  }
  return report;
}

std::string compare_text(const ordered_json& before, const ordered_json& now) {
  std::string text;
  for (const auto& [key, value] : now["machine"].items()) {
    warn("machine " + key, before["machine"].value(key, ordered_json()), value, &text);
  }
  for (const char* key : kSameKeys) {
    warn(key, before.value(key, ordered_json()), now.value(key, ordered_json()), &text);
  }
  text += fmt::format("{:<22} {:>12} {:>12} {:<5} {:>7}  {:>5} {:>5}\n", "row", "before", "now",
                      "unit", "better", "of", "limit");
  for (const ordered_json& row : now["rows"]) {
    const auto name = row["row"].get<std::string>();
    text += comparison_line(name, find_row(before, name), &row);
  }
  for (const ordered_json& row : before["rows"]) {
    const auto name = row["row"].get<std::string>();
    if (find_row(now, name) == nullptr) text += comparison_line(name, &row, nullptr);
  }
  return text;
}

}  // namespace rlgen::cli
