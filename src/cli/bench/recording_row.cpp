#include "cli/bench/recording_row.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rlgen::cli {
namespace {

constexpr int kPairs = 4;

ShardSpec other_spec(ShardSpec spec) {
  spec.enable_return_routed_experts = !spec.enable_return_routed_experts;
  spec.routed_experts_layers = "moe";
  return spec;
}

// Prompts that the shards have not met, or those of the decode rows, which they find cached.
std::vector<SequenceRequest> requests_of(BenchContext& context, const RowSpec& row) {
  const int32_t prompt = prompt_tokens(row, context.options);
  const int32_t made = new_tokens(row, context.options);
  if (row.decode == 0) return context.prompts->fresh(row.batch, prompt, made);
  return context.prompts->repeated(row.batch, prompt, made);
}

// Seconds that one token, of a prompt or drawn, took in a run; 0 where no part of it counts.
StatusOr<double> token_seconds(BenchContext& context, ShardClient& shard, const RowSpec& row,
                               const std::vector<SequenceRequest>& requests) {
  RLGEN_ASSIGN_OR_RETURN(const ShardTimer::Run run, context.timer.run(shard, requests));
  if (row.decode == 0) {
    return run.seconds / (static_cast<double>(row.batch) * prompt_tokens(row, context.options));
  }
  const SteadyWindow window = steady_window(run.steps, row.batch);
  return window.steps == 0 ? 0.0 : window.seconds / static_cast<double>(window.tokens);
}

void keep_shorter(double seconds, double* best) {
  if (*best == 0.0 || seconds < *best) *best = seconds;
}

// Both shards once without a measurement, then in turn, each of them first as often as second.
Status time_in_turn(BenchContext& context, const RowSpec& row,
                    const std::array<ShardClient*, 2>& shards, RecordingTimes* best) {
  const std::vector<SequenceRequest> first = requests_of(context, row);
  for (ShardClient* const shard : shards) {
    RLGEN_RETURN_IF_ERROR(token_seconds(context, *shard, row, first).status());
  }
  for (int run = 0; run < 2 * kPairs; run += 2) {
    const std::vector<SequenceRequest> requests = requests_of(context, row);
    for (int turn = 0; turn < 2; ++turn) {
      const bool recording = (run / 2 + turn) % 2 == 1;
      RLGEN_ASSIGN_OR_RETURN(const double seconds,
                             token_seconds(context, *shards[recording ? 1 : 0], row, requests));
      keep_shorter(seconds, recording ? &best->on : &best->off);
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Figure> measure_recording(BenchContext& context, const RowSpec& row) {
  Figure figure = {.row = row.name, .unit = "tok/s", .of_all_runs = true};
  RLGEN_ASSIGN_OR_RETURN(
      const std::unique_ptr<ShardClient> other,
      context.launcher.start(other_spec(context.options.engine.spec), context.timer));
  RLGEN_ASSIGN_OR_RETURN(const ShardInfo info, other->info());
  figure.skipped = why_not(row, context.options, info, context.model);
  if (!figure.skipped.empty()) return figure;
  std::array<ShardClient*, 2> shards = {context.shard.get(), other.get()};
  if (context.info.routes.recorded()) std::swap(shards[0], shards[1]);
  RecordingTimes& best = context.recording[row.name];
  RLGEN_RETURN_IF_ERROR(time_in_turn(context, row, shards, &best));
  if (best.on == 0.0 || best.off == 0.0) {
    figure.skipped = "--decode-tokens leaves no step in which every sequence decodes";
    return figure;
  }
  figure.value = 1.0 / best.on;
  set_limit(&figure, 1.0 / best.off, "no recording");
  figure.details = {{"overhead_percent", 100.0 * (best.on / best.off - 1.0)}};
  return figure;
}

}  // namespace rlgen::cli
