#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "backends/local/local_launcher.h"
#include "backends/local/shard_options.h"
#include "base/file.h"
#include "cli/bench/machine_limits.h"
#include "cli/bench/shard_timing.h"
#include "cli/bench/work.h"
#include "cli/commands.h"
#include "models/model.h"

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array<int32_t, 3> kBatches = {1, 8, 64};
constexpr double kFlopsSeconds = 0.1;
constexpr int kReadPasses = 3;

// One row of the result: a kind of work at a batch size.
struct Row {
  std::string kind;  // "prefill" or "decode"
  int32_t batch = 1;
  double tokens_per_second = 0.0;  // best of the repeats
  double fraction = 0.0;           // of the limit, in that repeat
  double limit = 0.0;              // tokens a second that the limit allows, in that repeat
  std::string bound;               // what the limit is: "arithmetic" or "reading"
};

MachineLimits better_of(const MachineLimits& a, const MachineLimits& b) {
  return {.flops = std::max(a.flops, b.flops),
          .read_bytes = std::max(a.read_bytes, b.read_bytes),
          .buffer_bytes = b.buffer_bytes};
}

// Machines change their speed under our hands (clock, neighbours), so each row is compared with the
// limits that were measured right before and right after it.
class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {}

  StatusOr<int> run() {
    RLGEN_RETURN_IF_ERROR(start());
    for (int32_t repeat = 0; repeat < options_.repeats; ++repeat) {
      for (Row& row : rows_) RLGEN_RETURN_IF_ERROR(measure(&row));
    }
    print();
    if (!options_.json.empty()) {
      RLGEN_RETURN_IF_ERROR(write_file_atomically(options_.json, to_json().dump(2) + "\n"));
    }
    return kExitGood;
  }

 private:
  Status start() {
    const ShardSpec& spec = options_.engine.spec;
    RLGEN_ASSIGN_OR_RETURN(const std::optional<DType> dtype, backends::choose_dtype(spec));
    RLGEN_ASSIGN_OR_RETURN(const kernels::Profile profile, backends::choose_profile(spec));
    RLGEN_ASSIGN_OR_RETURN(const models::Model model,
                           models::open_model(spec.model, spec.max_model_len, dtype, profile));
    models::NameTable table = *model.decoder.table;
    RLGEN_RETURN_IF_ERROR(models::resolve_layout(model.tensors.manifest(), &table));
    RLGEN_ASSIGN_OR_RETURN(shard_, backends::LocalLauncher().start(options_.engine.spec, timer_));
    RLGEN_ASSIGN_OR_RETURN(info_, shard_->info());
    const int64_t needed = options_.prefill_tokens + options_.decode_tokens;
    if (needed > info_.max_model_len) {
      return absl::InvalidArgumentError(
          fmt::format("--prefill-tokens {} and --decode-tokens {} do not fit into {} positions",
                      options_.prefill_tokens, options_.decode_tokens, info_.max_model_len));
    }
    cost_ = model_cost(model.decoder.spec, table, model.decoder.slots, info_.kv_bytes_per_token);
    RLGEN_ASSIGN_OR_RETURN(kernels_, kernels::select_kernels(info_.isa));
    pool_ = std::make_unique<ThreadPool>(info_.num_threads);
    RLGEN_ASSIGN_OR_RETURN(auto buffer,
                           ReadBuffer::create(cost_.body_bytes + cost_.head_bytes, *pool_));
    buffer_ = std::make_unique<ReadBuffer>(std::move(buffer));
    for (const char* kind : {"prefill", "decode"}) {
      for (const int32_t batch : kBatches) {
        if (batch <= options_.engine.spec.max_num_seqs) {
          rows_.push_back({.kind = kind, .batch = batch});
        }
      }
    }
    return absl::OkStatus();
  }

  MachineLimits measure_limits() {
    MachineLimits now{.buffer_bytes = buffer_->bytes()};
    now.flops = measure_flops(*kernels_, *pool_, kFlopsSeconds);
    for (int i = 0; i < kReadPasses; ++i) {
      now.read_bytes = std::max(now.read_bytes, buffer_->measure(*kernels_, *pool_));
    }
    limits_ = better_of(limits_, now);
    return now;
  }

  std::vector<SequenceRequest> requests(int32_t batch, int32_t max_tokens) {
    std::vector<SequenceRequest> all;
    ++group_;
    for (int32_t i = 0; i < batch; ++i) {
      SequenceRequest request{.id = next_id_++, .group = group_, .sample_index = i};
      for (int32_t t = 0; t < options_.prefill_tokens; ++t) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        request.prompt_token_ids.push_back(
            static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(info_.vocab_size)));
      }
      request.sampling.max_tokens = max_tokens;
      request.sampling.ignore_eos = true;
      request.sampling.seed = i;
      all.push_back(std::move(request));
    }
    return all;
  }

  Status measure(Row* row) {
    const bool prefill = row->kind == "prefill";
    const MachineLimits before = measure_limits();
    RLGEN_ASSIGN_OR_RETURN(
        const ShardTimer::Run run,
        timer_.run(*shard_, requests(row->batch, prefill ? 1 : options_.decode_tokens)));
    const MachineLimits limits = better_of(before, measure_limits());
    Work work;
    double tokens = 0.0;
    double seconds = 0.0;
    if (prefill) {
      work = prefill_work(cost_, row->batch, options_.prefill_tokens,
                          options_.engine.spec.max_num_batched_tokens);
      tokens = static_cast<double>(row->batch) * options_.prefill_tokens;
      seconds = run.seconds;
    } else {
      const SteadyWindow window = steady_window(run.steps, row->batch);
      if (window.steps == 0) {
        return absl::InvalidArgumentError(
            fmt::format("--decode-tokens {} is too few for a steady part at batch {}",
                        options_.decode_tokens, row->batch));
      }
      work = decode_work(cost_, window.tokens, window.keys, static_cast<double>(window.steps));
      tokens = static_cast<double>(window.tokens);
      seconds = window.seconds;
    }
    const double rate = tokens / seconds;
    if (rate <= row->tokens_per_second) return absl::OkStatus();
    const double least = least_seconds(work, limits.flops, limits.read_bytes);
    row->tokens_per_second = rate;
    row->limit = tokens / least;
    row->fraction = least / seconds;
    row->bound =
        work.flops / limits_.flops >= work.bytes / limits_.read_bytes ? "arithmetic" : "reading";
    return absl::OkStatus();
  }

  void print() const {
    fmt::print("{}, {}, {} threads, numerics {}\n", info_.model, info_.isa, info_.num_threads,
               info_.numerics.to_string());
    fmt::print("FMA peak       {:8.1f} GFLOP/s\n", limits_.flops / 1e9);
    fmt::print("read bandwidth {:8.1f} GB/s over {:.1f} MB (the weights of one step)\n",
               limits_.read_bytes / 1e9, static_cast<double>(limits_.buffer_bytes) / 1e6);
    fmt::print("prompts of {} tokens, {} new ones, best of {}\n\n", options_.prefill_tokens,
               options_.decode_tokens, options_.repeats);
    fmt::print("{:<8} {:>5} {:>10} {:>12} {:>9}  limited by\n", "work", "batch", "tok/s",
               "limit tok/s", "fraction");
    for (const Row& row : rows_) {
      fmt::print("{:<8} {:>5} {:>10.1f} {:>12.1f} {:>8.0f}%  {}\n", row.kind, row.batch,
                 row.tokens_per_second, row.limit, 100.0 * row.fraction, row.bound);
    }
  }

  ordered_json to_json() const {
    auto rows = ordered_json::array();
    for (const Row& row : rows_) {
      rows.push_back({{"work", row.kind},
                      {"batch", row.batch},
                      {"tokens_per_second", row.tokens_per_second},
                      {"limit_tokens_per_second", row.limit},
                      {"fraction", row.fraction},
                      {"limited_by", row.bound}});
    }
    return {{"model", info_.model},
            {"isa", info_.isa},
            {"threads", info_.num_threads},
            {"numerics", info_.numerics.to_string()},
            {"fma_flops_per_second", limits_.flops},
            {"read_bytes_per_second", limits_.read_bytes},
            {"read_buffer_bytes", limits_.buffer_bytes},
            {"prefill_tokens", options_.prefill_tokens},
            {"decode_tokens", options_.decode_tokens},
            {"repeats", options_.repeats},
            {"rows", rows}};
  }

  const BenchOptions& options_;
  ShardTimer timer_;  // outlives the shard
  std::unique_ptr<ShardClient> shard_;
  ShardInfo info_;
  ModelCost cost_;
  const kernels::KernelTable* kernels_ = nullptr;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ReadBuffer> buffer_;
  MachineLimits limits_;  // the best of the whole run
  std::vector<Row> rows_;
  SequenceId next_id_ = 1;
  uint64_t group_ = 0;
  uint64_t state_ = 1;
};

}  // namespace

StatusOr<int> run_bench(const BenchOptions& options) { return Bench(options).run(); }

}  // namespace rlgen::cli
