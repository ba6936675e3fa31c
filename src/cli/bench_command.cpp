#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/bench/bench_start.h"
#include "cli/bench/compare.h"
#include "cli/bench/part_rows.h"
#include "cli/bench/plot.h"
#include "cli/bench/recording_row.h"
#include "cli/bench/refit_row.h"
#include "cli/bench/report.h"
#include "cli/bench/rows.h"
#include "cli/bench/shard_rows.h"
#include "cli/commands.h"
#include "cli/say.h"
#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

// Where the run is, in one line of a terminal.
void show(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 1) say("\r{:<48}\r", text);
}

using Measure = StatusOr<Figure> (*)(BenchContext& context, const RowSpec& row);

// Null for the rows that come out of the start.
Measure measure_of(RowKind kind) {
  switch (kind) {
    case RowKind::kPrefill:
      return measure_prefill;
    case RowKind::kDecode:
      return measure_decode;
    case RowKind::kMixed:
      return measure_mixed;
    case RowKind::kRecording:
      return measure_recording;
    case RowKind::kAttention:
      return measure_attention;
    case RowKind::kSampling:
      return measure_sampling;
    case RowKind::kScheduler:
      return measure_scheduler;
    case RowKind::kRefit:
      return measure_refit;
    case RowKind::kLoad:
    case RowKind::kMemory:
      break;
  }
  return nullptr;
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : context_(options) { report_.options = options; }

  StatusOr<int> run() {
    const BenchOptions& options = report_.options;
    for (const std::string& path : {options.json, options.plot}) {
      if (!path.empty()) RLGEN_RETURN_IF_ERROR(check_writable(path));
    }
    nlohmann::ordered_json before;
    if (!options.compare.empty()) {
      RLGEN_ASSIGN_OR_RETURN(const std::string text, read_file(options.compare));
      RLGEN_ASSIGN_OR_RETURN(before, parse_report(text, options.compare));
    }
    RLGEN_RETURN_IF_ERROR(start());
    RLGEN_RETURN_IF_ERROR(measure_rows());
    finish();
    fmt::print("{}", report_text(report_));
    const nlohmann::ordered_json now = report_json(report_);
    if (!options.compare.empty()) fmt::print("\n{}", compare_text(before, now));
    if (!options.json.empty()) {
      RLGEN_RETURN_IF_ERROR(write_file_atomically(options.json, now.dump(2) + "\n"));
    }
    if (!options.plot.empty()) {
      RLGEN_RETURN_IF_ERROR(write_file_atomically(options.plot, plot_svg(report_)));
    }
    return kExitGood;
  }

 private:
  Status start() {
    const BenchOptions& options = report_.options;
    auto rows = choose_rows(options.rows);
    if (!rows.ok()) return spec_error("--rows", rows.status());
    rows_ = *std::move(rows);
    int32_t loads = 1;
    for (const RowSpec& row : rows_) {
      report_.figures.push_back({.row = row.name});
      if (row.kind == RowKind::kLoad) loads = options.repeats;
    }
    Figure load;
    RLGEN_RETURN_IF_ERROR(start_bench(&context_, loads, &load));
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].kind == RowKind::kLoad) report_.figures[i] = load;
      report_.figures[i].skipped = why_not(rows_[i], options, context_.info, context_.model);
    }
    return check_lengths();
  }

  // Lengths that the options name have to fit; a row with lengths of its own is left out instead.
  Status check_lengths() const {
    const BenchOptions& options = report_.options;
    for (const RowSpec& row : rows_) {
      if (row.prompt > 0 || !runs_prompts(row.kind)) continue;
      if (prompt_tokens(row, options) + new_tokens(row, options) <= context_.info.max_model_len) {
        continue;
      }
      return spec_error(
          "--prefill-tokens",
          absl::InvalidArgumentError(fmt::format(
              "--prefill-tokens {} and {} new tokens (row {}, --decode-tokens) do not fit into {} "
              "positions",
              options.prefill_tokens, new_tokens(row, options), row.name,
              context_.info.max_model_len)));
    }
    return absl::OkStatus();
  }

  // The rows one after the other, and that again, so that what slows the machine down for a while
  // meets all of them. The first round is always made.
  Status measure_rows() {
    const BenchOptions& options = report_.options;
    const auto start = std::chrono::steady_clock::now();
    for (int32_t repeat = 0; repeat < options.repeats; ++repeat) {
      for (size_t i = 0; i < rows_.size(); ++i) {
        const Measure measure = measure_of(rows_[i].kind);
        if (measure == nullptr || !report_.figures[i].skipped.empty()) continue;
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        if (repeat > 0 && spent.count() > options.seconds) return absl::OkStatus();
        show(fmt::format("round {} of {}: {}", repeat + 1, options.repeats, rows_[i].name));
        RLGEN_ASSIGN_OR_RETURN(const Figure figure, measure(context_, rows_[i]));
        keep_better(figure, &report_.figures[i]);
      }
    }
    return absl::OkStatus();
  }

  void finish() {
    show("");
    report_.machine = describe_machine();
    report_.info = context_.info;
    report_.limits = context_.meter->best();
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].kind == RowKind::kMemory) report_.figures[i] = memory_figure(context_);
    }
  }

  BenchContext context_;
  std::vector<RowSpec> rows_;
  BenchReport report_;  // its figures stand in the order of rows_
};

}  // namespace

StatusOr<int> run_bench(const BenchOptions& options) { return Bench(options).run(); }

}  // namespace rlgen::cli
