#include <algorithm>
#include <memory>
#include <utility>

#include "cli/bench/part_rows.h"
#include "cli/bench/stopwatch.h"
#include "engine/schedule/scheduler.h"

namespace rlgen::cli {
namespace {

constexpr int kSteps = 400;
constexpr int32_t kPromptTokens = 96;
constexpr int32_t kBlockKeys = 16;

// Blocks in which every running sequence has room to its end, of keys of one number each: the
// scheduler looks at no key.
StatusOr<engine::BlockAllocator> make_blocks(int32_t sequences) {
  const kernels::KvLayout layout = {
      .layers = 1, .kv_heads = 1, .head_dim = 1, .value_dim = 1, .block_size = kBlockKeys};
  const int32_t each = (kPromptTokens + kSteps) / kBlockKeys + 1;
  RLGEN_ASSIGN_OR_RETURN(std::shared_ptr<Region> region,
                         Region::create(layout.block_stride() * size_t(sequences * each)));
  return engine::BlockAllocator::create(std::move(region), layout);
}

std::unique_ptr<engine::Sequence> make_sequence(int32_t number) {
  auto sequence = std::make_unique<engine::Sequence>();
  sequence->request.id = SequenceId(number);
  sequence->arrival = uint64_t(number);
  sequence->tokens.assign(size_t{kPromptTokens}, number);
  sequence->prompt_len = kPromptTokens;
  sequence->next_prompt = kPromptTokens;
  sequence->token_limit = kSteps;
  return sequence;
}

// All that the scheduler does for a step in which each running sequence makes a token.
void run_step(engine::Scheduler* scheduler) {
  scheduler->admit(engine::Admission::kAll);
  for (const engine::PlannedRows& planned : scheduler->plan()) {
    scheduler->advance(planned.sequence, planned.rows);
    planned.sequence->tokens.push_back(0);
  }
}

}  // namespace

StatusOr<Figure> measure_scheduler(BenchContext& context, const RowSpec& row) {
  RLGEN_ASSIGN_OR_RETURN(engine::BlockAllocator blocks, make_blocks(row.batch));
  engine::Scheduler scheduler({.max_num_seqs = row.batch,
                               .max_num_batched_tokens = row.batch * kPromptTokens,
                               .max_wanted_rows = row.batch,
                               .prefix_caching = true},
                              &blocks);
  for (int32_t i = 0; i < row.batch + row.waiting; ++i) scheduler.add(make_sequence(i + 1));
  run_step(&scheduler);
  double seconds = 0.0;
  for (int step = 1; step < kSteps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    run_step(&scheduler);
    const double taken = seconds_since(start);
    seconds = step == 1 ? taken : std::min(seconds, taken);
  }
  if (scheduler.num_running() != row.batch || scheduler.num_waiting() != row.waiting) {
    return absl::InternalError("the sequences of the row did not all stay where they were");
  }
  Figure figure = {.row = row.name, .value = 1e3 * seconds, .unit = "ms"};
  if (context.batch_step_seconds > 0.0) {
    figure.details = {{"percent_of_decode_step", 100.0 * seconds / context.batch_step_seconds}};
  }
  return figure;
}

}  // namespace rlgen::cli
