#include "cli/bench/recording_row.h"

#include <array>
#include <utility>

#include "cli/bench/latencies.h"

namespace rlgen::cli {
namespace {

constexpr int kPairs = 12;

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

// Seconds that one token, of a prompt or drawn, took in a run: of steps the median, which what else
// runs on the machine moves least; 0 where none counts.
StatusOr<double> token_seconds(BenchContext& context, ShardClient& shard, const RowSpec& row,
                               const std::vector<SequenceRequest>& requests) {
  RLGEN_ASSIGN_OR_RETURN(const ShardTimer::Run run, context.timer.run(shard, requests));
  if (row.decode == 0) {
    return run.seconds / (static_cast<double>(row.batch) * prompt_tokens(row, context.options));
  }
  return percentile(full_step_seconds(run.steps, row.batch), 0.5) / row.batch;
}

// Both shards once without a measurement, then in turn, each of them first as often as second.
Status time_in_turn(BenchContext& context, const RowSpec& row,
                    const std::array<ShardClient*, 2>& shards, RecordingTimes* times) {
  const std::vector<SequenceRequest> first = requests_of(context, row);
  for (ShardClient* const shard : shards) {
    RLGEN_RETURN_IF_ERROR(token_seconds(context, *shard, row, first).status());
  }
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::vector<SequenceRequest> requests = requests_of(context, row);
    for (int turn = 0; turn < 2; ++turn) {
      const bool recording = (pair + turn) % 2 == 1;
      RLGEN_ASSIGN_OR_RETURN(const double seconds,
                             token_seconds(context, *shards[recording ? 1 : 0], row, requests));
      (recording ? times->on : times->off).push_back(seconds);
    }
  }
  return absl::OkStatus();
}

// By how many percent longer a token took with recording, in each pair of runs.
std::vector<double> overheads(const RecordingTimes& times) {
  std::vector<double> percent;
  for (size_t i = 0; i < times.on.size(); ++i) {
    percent.push_back(100.0 * (times.on[i] / times.off[i] - 1.0));
  }
  return percent;
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
  RecordingTimes& times = context.recording[row.name];
  RLGEN_RETURN_IF_ERROR(time_in_turn(context, row, shards, &times));
  const double off = percentile(times.off, 0.5);
  if (off == 0.0) {
    figure.skipped = "--decode-tokens leaves no step in which every sequence decodes";
    return figure;
  }
  const std::vector<double> percent = overheads(times);
  figure.value = 1.0 / percentile(times.on, 0.5);
  set_limit(&figure, 1.0 / off, "no recording");
  figure.details = {{"overhead_percent", percentile(percent, 0.5)},
                    {"overhead_percent_p25", percentile(percent, 0.25)},
                    {"overhead_percent_p75", percentile(percent, 0.75)}};
  return figure;
}

}  // namespace rlgen::cli
