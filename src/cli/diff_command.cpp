#include <fmt/format.h>

#include <filesystem>

#include "backends/local/free_memory.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/diff/diff_input.h"
#include "cli/diff/rollout_diff.h"
#include "cli/diff/trace_file.h"
#include "cli/diff/trace_report.h"
#include "cli/diff/traced_run.h"
#include "cli/option_words.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "models/model.h"

namespace rlgen::cli {
namespace {

constexpr std::string_view kLeft = "left";
constexpr std::string_view kRight = "right";

StatusOr<int> diff_rollouts(const DiffOptions& options) {
  RLGEN_ASSIGN_OR_RETURN(const RolloutLines left, read_rollout_lines(options.rollouts[0]));
  RLGEN_ASSIGN_OR_RETURN(const RolloutLines right, read_rollout_lines(options.rollouts[1]));
  const RolloutComparison comparison = compare_rollouts(left, right, options.tolerance);
  print_rollout_comparison(comparison, options.rollouts[0], options.rollouts[1], options.json);
  return comparison.different.empty() ? kExitGood : kExitFailed;
}

Status check_dump(const DiffOptions& options) {
  if (options.dump.empty()) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(annotate(check_writable(options.dump), "--dump"));
  if (options.overwrite || !std::filesystem::exists(options.dump)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      fmt::format("--dump: {} exists; --overwrite replaces it", options.dump));
}

// Both sides are held, and a dump once more while it is written.
Status check_memory(const models::DecoderSpec& spec, std::span<const TokenIds> sequences) {
  RLGEN_ASSIGN_OR_RETURN(const int64_t room, backends::free_memory());
  const int64_t needed = 3 * trace_bytes(spec, sequences);
  if (needed <= room / 2) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "the values of all positions take {} bytes and half of the free memory is {}; give fewer or "
      "shorter sequences",
      needed, room / 2));
}

std::string side_text(const EngineOptions& side, const std::string& settings) {
  return settings.empty() ? side.spec.model : fmt::format("{} ({})", side.spec.model, settings);
}

class Diff {
 public:
  explicit Diff(const DiffOptions& options) : options_(options) {}

  StatusOr<int> run() {
    RLGEN_RETURN_IF_ERROR(check_dump(options_));
    RLGEN_ASSIGN_OR_RETURN(
        const models::Model model,
        models::open_model(options_.left.spec.model, options_.left.spec.max_model_len));
    report_.spec = model.decoder.spec;
    RLGEN_RETURN_IF_ERROR(read_sides());
    RLGEN_RETURN_IF_ERROR(check_memory(report_.spec, report_.sequences));
    RLGEN_ASSIGN_OR_RETURN(const Trace left, trace(options_.left, kLeft));
    RLGEN_RETURN_IF_ERROR(dump(left));
    if (options_.only_dump()) return kExitGood;
    if (options_.reference.empty()) {
      RLGEN_ASSIGN_OR_RETURN(reference_, trace(options_.right, kRight));
    }
    RLGEN_ASSIGN_OR_RETURN(report_.difference,
                           compare_traces(left, reference_, options_.tolerance));
    print_trace_report(report_, options_.json);
    return report_.equal() ? kExitGood : kExitFailed;
  }

 private:
  Status read_sides() {
    report_.tolerance = options_.tolerance;
    report_.left = side_text(options_.left, options_.left_settings);
    report_.right = options_.reference.empty() ? side_text(options_.right, options_.right_settings)
                                               : options_.reference;
    if (options_.reference.empty()) {
      RLGEN_ASSIGN_OR_RETURN(report_.sequences, read_sequences(options_, report_.spec.vocab_rows));
      return absl::OkStatus();
    }
    RLGEN_ASSIGN_OR_RETURN(reference_, read_trace(options_.reference));
    for (const auto& sequence : reference_) report_.sequences.push_back(sequence.token_ids);
    return absl::OkStatus();
  }

  StatusOr<Trace> trace(const EngineOptions& side, std::string_view name) {
    auto run = trace_run(side.spec, report_.sequences);
    if (!run.ok()) return annotate(in_option_words(run.status()), name);
    for (size_t i = 0; i < run->ends.size(); ++i) {
      if (run->ends[i].ok()) continue;
      report_.ends.push_back({.sequence = i, .side = std::string(name), .why = run->ends[i]});
    }
    return std::move(run->trace);
  }

  Status dump(const Trace& left) {
    if (options_.dump.empty()) return absl::OkStatus();
    RLGEN_RETURN_IF_ERROR(
        annotate(write_trace(options_.dump, left, "rlgen " + report_.left), "--dump"));
    say("{} written to {}\n", counted(static_cast<int64_t>(left.size()), "sequence"),
        options_.dump);
    return absl::OkStatus();
  }

  const DiffOptions& options_;
  TraceReport report_;
  Trace reference_;
};

}  // namespace

StatusOr<int> run_diff(const DiffOptions& options) {
  return options.rollouts.empty() ? Diff(options).run() : diff_rollouts(options);
}

}  // namespace rlgen::cli
