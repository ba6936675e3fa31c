#include "cli/bench/bench_start.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "backends/local/shard_options.h"
#include "cli/bench/load_row.h"
#include "cli/bench/process_memory.h"
#include "models/model.h"

namespace rlgen::cli {
namespace {

constexpr double kMegabyte = 1e6;

// What the rows need to know of the model; nothing of it stays open.
Status look_at_model(BenchContext* context) {
  const ShardSpec& spec = context->options.engine.spec;
  RLGEN_ASSIGN_OR_RETURN(const backends::MachineChoice machine, backends::choose_machine(spec));
  RLGEN_ASSIGN_OR_RETURN(context->profile, backends::choose_profile(spec));
  RLGEN_ASSIGN_OR_RETURN(const models::Model model, backends::open_model(spec));
  context->model = model.decoder.spec;
  RLGEN_ASSIGN_OR_RETURN(context->kv_layout, backends::choose_kv_layout(spec, model.decoder.spec));
  std::set<std::string> files;
  for (const models::StoredTensor& tensor : model.tensors.tensors()) files.insert(tensor.file);
  context->files.assign(files.begin(), files.end());
  const auto kv_bytes =
      static_cast<int64_t>(context->kv_layout.block_stride()) / context->kv_layout.block_size;
  context->cost =
      model_cost(model.decoder.spec, *model.decoder.table, model.decoder.slots, kv_bytes);
  context->kernels = machine.kernels;
  context->pool = std::make_unique<ThreadPool>(machine.num_threads);
  context->meter.emplace(*context->kernels, context->profile, *context->pool,
                         context->cost.weight_bytes());
  return absl::OkStatus();
}

StatusOr<Figure> start_once(BenchContext* context) {
  context->shard.reset();
  const bool peak_is_own = reset_peak_memory();
  const StatusOr<ProcessMemory> before = read_process_memory();
  const auto start = std::chrono::steady_clock::now();
  RLGEN_ASSIGN_OR_RETURN(context->shard,
                         context->launcher.start(context->options.engine.spec, context->timer));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const StatusOr<ProcessMemory> after = read_process_memory();
  if (before.ok() && after.ok()) {
    context->resident_before = before->resident;
    context->idle_bytes = after->resident - before->resident;
    context->load_peak_bytes = peak_is_own ? after->peak - before->resident : 0;
  }
  return Figure{.row = "load", .value = 1e3 * time.count(), .unit = "ms"};
}

// Milliseconds of a shard that starts beside the first one and shares its weights: of all that a
// start is but reading and packing.
StatusOr<double> start_up_ms(BenchContext* context) {
  const auto start = std::chrono::steady_clock::now();
  RLGEN_ASSIGN_OR_RETURN(const auto second,
                         context->launcher.start(context->options.engine.spec, context->timer));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return 1e3 * time.count();
}

}  // namespace

Status start_bench(BenchContext* context, int32_t loads, Figure* load) {
  RLGEN_RETURN_IF_ERROR(look_at_model(context));
  for (int32_t i = 0; i < loads; ++i) {
    RLGEN_ASSIGN_OR_RETURN(Figure run, start_once(context));
    RLGEN_ASSIGN_OR_RETURN(context->info, context->shard->info());
    RLGEN_ASSIGN_OR_RETURN(const double start_up, start_up_ms(context));
    RLGEN_ASSIGN_OR_RETURN(
        const LoadLimit limit,
        measure_load_limit(context->files, context->info.weight_bytes, *context->pool));
    set_limit(&run, 1e3 * (limit.pass + limit.copy), "reading and first copy");
    run.details = {{"pass_over_file_ms", 1e3 * limit.pass},
                   {"first_copy_ms", 1e3 * limit.copy},
                   {"start_up_ms", start_up}};
    keep_better(run, load);
  }
  context->prompts.emplace(context->info.vocab_size);
  return absl::OkStatus();
}

Figure memory_figure(const BenchContext& context) {
  const double weights = static_cast<double>(context.info.weight_bytes) / kMegabyte;
  const double kv = static_cast<double>(context.info.kv_capacity_tokens) *
                    static_cast<double>(context.info.kv_bytes_per_token) / kMegabyte;
  Figure figure = {.row = "memory",
                   .value = static_cast<double>(context.idle_bytes) / kMegabyte,
                   .unit = "MB",
                   .runs = 1};
  if (context.idle_bytes <= 0) {
    figure.skipped = "the kernel does not say, or it is too little to be seen";
    return figure;
  }
  set_limit(&figure, weights, "packed weights");
  const int64_t peak = std::max(context.load_peak_bytes, context.run_peak_bytes);
  figure.details = {{"packed_weights_mb", weights},
                    {"kv_budget_mb", kv},
                    {"times_packed_weights", figure.value / weights},
                    {"peak_mb", static_cast<double>(peak) / kMegabyte},
                    {"load_peak_mb", static_cast<double>(context.load_peak_bytes) / kMegabyte}};
  return figure;
}

}  // namespace rlgen::cli
