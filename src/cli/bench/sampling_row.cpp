#include <cmath>

#include "cli/bench/part_rows.h"
#include "cli/bench/stopwatch.h"
#include "engine/sample/sampler.h"

namespace rlgen::cli {
namespace {

constexpr int kSamplingPasses = 3;
constexpr float kTopP = 0.9f;
constexpr float kSpread = 3.0f;  // standard deviation of the logits, about that of real ones

// Logits as of a normal distribution: a sum of four uniform numbers, widened.
void fill_logits(uint64_t seed, std::span<float> logits) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& logit : logits) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    float sum = 0.0f;
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<float>((state >> (16 * part)) & 0xffff) / 65536.0f;
    }
    logit = (sum - 2.0f) * std::sqrt(3.0f) * kSpread;
  }
}

SamplingParams params_of(RowSampling kind) {
  SamplingParams params;
  params.seed = 1;
  if (kind == RowSampling::kGreedy) params.temperature = 0.0f;
  if (kind == RowSampling::kTopP) params.top_p = kTopP;
  return params;
}

// Rows of logits with a copy to restore them from, since the sampler writes over them.
struct Batch {
  Batch(int32_t rows, int32_t entries, ThreadPool& pool)
      : rows(rows), entries(entries), original(static_cast<size_t>(rows) * size_t(entries)) {
    pool.run(rows, [&](int64_t row, int) {
      fill_logits(static_cast<uint64_t>(row), {original.data() + row * entries, size_t(entries)});
    });
    logits = original;
  }

  int32_t rows;
  int32_t entries;
  std::vector<float> original;
  std::vector<float> logits;
};

// Seconds of one step of sampling, the best of several.
StatusOr<double> best_step(const BenchContext& context, RowSampling kind, Batch* batch) {
  const SamplingParams params = params_of(kind);
  std::vector<engine::SampleScratch> scratch(static_cast<size_t>(context.pool->num_threads()));
  std::vector<Status> status(static_cast<size_t>(batch->rows));
  std::vector<TokenRecord> records(static_cast<size_t>(batch->rows));
  const auto sample = [&](int64_t i, int thread) {
    const auto row = static_cast<size_t>(i);
    const engine::SampleRow input = {
        .logits = {batch->logits.data() + i * batch->entries, size_t(batch->entries)},
        .vocab_size = batch->entries,
        .params = &params,
        .sample_index = static_cast<int32_t>(i)};
    status[row] = engine::sample_token(*context.kernels, input,
                                       &scratch[static_cast<size_t>(thread)], &records[row]);
  };
  const double best = best_seconds(
      kSamplingPasses, [&] { batch->logits = batch->original; },
      [&] { context.pool->run(batch->rows, sample); });
  for (const Status& one : status) RLGEN_RETURN_IF_ERROR(one);
  return best;
}

}  // namespace

StatusOr<Figure> measure_sampling(BenchContext& context, const RowSpec& row) {
  const int32_t entries = row.entries > 0 ? row.entries : context.info.vocab_size;
  Batch batch(row.batch, entries, *context.pool);
  const int64_t bytes = int64_t{row.batch} * entries * int64_t{sizeof(float)};
  RLGEN_ASSIGN_OR_RETURN(const MachineLimits before, context.meter->measure(bytes));
  RLGEN_ASSIGN_OR_RETURN(const double seconds, best_step(context, row.sampling, &batch));
  RLGEN_ASSIGN_OR_RETURN(const MachineLimits after, context.meter->measure(bytes));
  Figure figure = {.row = row.name, .value = 1e3 * seconds, .unit = "ms"};
  const double read_bytes = better_of(before, after).read_bytes;
  set_limit(&figure, 1e3 * static_cast<double>(bytes) / read_bytes, "reading");
  if (context.batch_step_seconds > 0.0) {
    figure.details = {{"percent_of_decode_step", 100.0 * seconds / context.batch_step_seconds}};
  }
  return figure;
}

}  // namespace rlgen::cli
