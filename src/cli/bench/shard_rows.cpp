#include "cli/bench/shard_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench/latencies.h"
#include "cli/bench/process_memory.h"
#include "contract/spec_error.h"
#include "kernels/philox.h"

namespace rlgen::cli {
namespace {

constexpr int32_t kMixedRequests = 32;
constexpr int32_t kMixedPrompt = 192;  // tokens of the longest prompt
constexpr int32_t kMixedNew = 48;      // new tokens at most
constexpr uint64_t kMixedSeed = 1;

// Runs requests between two measurements of the limits and notes the memory that it took.
struct TimedRun {
  ShardTimer::Run run;
  MachineLimits limits;
};

StatusOr<TimedRun> run_between_limits(BenchContext& context, std::vector<SequenceRequest> requests,
                                      int64_t step_bytes,
                                      const std::vector<double>& arrivals = {}) {
  RLGEN_ASSIGN_OR_RETURN(const MachineLimits before, context.meter->measure(step_bytes));
  const bool peak_is_own = reset_peak_memory();
  TimedRun timed;
  RLGEN_ASSIGN_OR_RETURN(timed.run,
                         context.timer.run(*context.shard, std::move(requests), arrivals));
  const StatusOr<ProcessMemory> memory = read_process_memory();
  if (peak_is_own && memory.ok()) {
    const int64_t own = context.resident_before + context.meter->buffer_bytes();
    context.run_peak_bytes = std::max(context.run_peak_bytes, memory->peak - own);
  }
  RLGEN_ASSIGN_OR_RETURN(const MachineLimits after, context.meter->measure(step_bytes));
  timed.limits = better_of(before, after);
  return timed;
}

Figure rate_figure(const RowSpec& row, double tokens, double seconds) {
  return {.row = row.name, .value = tokens / seconds, .unit = "tok/s"};
}

void set_work_limit(const Work& work, const MachineLimits& limits, double tokens, Figure* figure) {
  const double least = least_seconds(work, limits.flops, limits.read_bytes);
  const bool arithmetic = work.flops / limits.flops >= work.bytes / limits.read_bytes;
  set_limit(figure, tokens / least, arithmetic ? "arithmetic" : "reading");
}

// Reads the prompts of a decode row, so that its sequences find them cached and begin together.
Status cache_prompts(BenchContext& context, int32_t count, int32_t prompt) {
  const bool caching = context.options.engine.spec.enable_prefix_caching;
  if (!caching || count <= context.cached_prompts) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(
      context.timer.run(*context.shard, context.prompts->repeated(count, prompt, 1), {}).status());
  context.cached_prompts = count;
  return absl::OkStatus();
}

}  // namespace

StatusOr<Figure> measure_prefill(BenchContext& context, const RowSpec& row) {
  const int32_t prompt = prompt_tokens(row, context.options);
  RLGEN_ASSIGN_OR_RETURN(const TimedRun timed,
                         run_between_limits(context, context.prompts->fresh(row.batch, prompt, 1),
                                            context.cost.weight_bytes()));
  const double tokens = static_cast<double>(row.batch) * prompt;
  Figure figure = rate_figure(row, tokens, timed.run.seconds);
  set_work_limit(prefill_work(context.cost, row.batch, prompt,
                              context.options.engine.spec.max_num_batched_tokens),
                 timed.limits, tokens, &figure);
  figure.details = {{"seconds", timed.run.seconds}};
  return figure;
}

StatusOr<Figure> measure_decode(BenchContext& context, const RowSpec& row) {
  const int32_t prompt = prompt_tokens(row, context.options);
  const int32_t decode = new_tokens(row, context.options);
  const int64_t step_bytes = static_cast<int64_t>(context.cost.step_bytes(row.batch)) +
                             int64_t{row.batch} * (prompt + decode / 2) * context.cost.kv_bytes;
  RLGEN_RETURN_IF_ERROR(cache_prompts(context, row.batch, prompt));
  RLGEN_ASSIGN_OR_RETURN(
      const TimedRun timed,
      run_between_limits(context, context.prompts->repeated(row.batch, prompt, decode),
                         step_bytes));
  const SteadyWindow window = steady_window(timed.run.steps, row.batch);
  if (window.steps == 0) {
    return spec_error(
        "--decode-tokens",
        absl::InvalidArgumentError(fmt::format(
            "--decode-tokens {} is too few for a steady part at batch {}", decode, row.batch)));
  }
  const auto tokens = static_cast<double>(window.tokens);
  const double step_seconds = window.seconds / static_cast<double>(window.steps);
  Figure figure = rate_figure(row, tokens, window.seconds);
  set_work_limit(
      decode_work(context.cost, window.tokens, window.keys, static_cast<double>(window.steps)),
      timed.limits, tokens, &figure);
  if (row.batch == kSamplingBatch &&
      (context.batch_step_seconds == 0.0 || step_seconds < context.batch_step_seconds)) {
    context.batch_step_seconds = step_seconds;
  }
  figure.details = {
      {"step_ms", 1e3 * step_seconds},
      {"whole_tokens_per_second", static_cast<double>(row.batch) * decode / timed.run.seconds},
      {"prompt_tokens_from_cache", static_cast<double>(timed.run.cached_tokens)}};
  return figure;
}

StatusOr<Figure> measure_mixed(BenchContext& context, const RowSpec& row) {
  const int32_t room = context.info.max_model_len;
  const auto length = [&](int32_t i, uint32_t stream, int32_t most) {
    const double u = kernels::uniform(kMixedSeed, stream, static_cast<uint64_t>(i));
    const double longest = std::max(1, std::min(most, room / 2));
    return std::max(1, static_cast<int32_t>(longest * (1.0 + 7.0 * u) / 8.0));
  };
  std::vector<SequenceRequest> requests;
  double tokens = 0.0;
  double flops = 0.0;
  for (int32_t i = 0; i < kMixedRequests; ++i) {
    const int32_t fresh_tokens = length(i, 1, kMixedPrompt);
    const int32_t made = length(i, 2, kMixedNew);
    std::vector<SequenceRequest> one = context.prompts->fresh(1, fresh_tokens, made);
    requests.push_back(std::move(one.front()));
    tokens += made;
    flops += prefill_work(context.cost, 1, fresh_tokens, fresh_tokens).flops;
    const int64_t keys = int64_t{made - 1} * (fresh_tokens + 1 + fresh_tokens + made - 1) / 2;
    flops += decode_work(context.cost, made - 1, keys, 0.0).flops;
  }
  const SequenceId first_id = requests.front().id;
  const std::vector<double> arrivals =
      arrival_times(kMixedRequests, context.options.arrival_rate, kMixedSeed);
  RLGEN_ASSIGN_OR_RETURN(
      const TimedRun timed,
      run_between_limits(context, std::move(requests), context.cost.weight_bytes(), arrivals));
  const double busy = flops / timed.limits.flops;
  const Latencies waits = latencies(timed.run, arrivals, first_id);
  Figure figure = rate_figure(row, tokens, timed.run.seconds);
  set_limit(&figure, tokens / std::max(busy, arrivals.back()),
            busy > arrivals.back() ? "arithmetic" : "arrivals");
  figure.details = {{"ttft_p50_ms", 1e3 * percentile(waits.first_token, 0.5)},
                    {"ttft_p99_ms", 1e3 * percentile(waits.first_token, 0.99)},
                    {"gap_p50_ms", 1e3 * percentile(waits.gaps, 0.5)},
                    {"gap_p99_ms", 1e3 * percentile(waits.gaps, 0.99)},
                    {"requests_per_second_offered", context.options.arrival_rate}};
  return figure;
}

}  // namespace rlgen::cli
