#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "models/decoder.h"

// What the parts of one forward pass share.
namespace rlgen::models {

// One step: what forward() was given, and sizes that every part needs.
struct Step {
  const Decoder& decoder;
  const DecoderSpec& spec;
  const WeightSet& weights;
  const StepBatch& batch;
  const kernels::KvCacheView& kv;
  const kernels::KernelContext& context;
  Workspace& work;
  bool kept = false;  // the rows that are left are the wanted ones

  int64_t rows() const { return int64_t(batch.token_ids.size()); }
  // The row of the batch that row `row` of what is left stands for.
  int64_t batch_row(int64_t row) const {
    return kept ? int64_t(batch.wanted_rows[size_t(row)]) : row;
  }
  int64_t query_size() const { return int64_t(spec.heads) * spec.head_dim; }
  int64_t key_size() const { return int64_t(spec.kv_heads) * spec.head_dim; }
  int64_t qkv_size() const { return models::qkv_size(spec); }
  int64_t attended_size() const { return models::attended_size(spec); }
  int64_t half() const { return int64_t(spec.rotary.inv_freq.size()); }
};

// Rows that one task of a row-wise step takes: enough to pay for claiming it.
inline constexpr int64_t kRowsPerTask = 4;

// body(row) for rows 0 .. rows - 1, on the pool.
template <typename F>
void for_rows(const Step& step, int64_t rows, F&& body) {
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  step.context.pool->run(tasks, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (int64_t row = task * kRowsPerTask; row < end; ++row) body(row);
  });
}

// Writes a key or a value of one KV head, or both, to the row's slot of the cache; a null one is
// left as it is.
inline void store_head(const Step& step, int32_t layer, int64_t row, int64_t kv_head,
                       const float* key, const float* value) {
  const BatchSequence& sequence =
      step.batch.sequences[size_t(step.work.sequence_of_row[size_t(row)])];
  const int64_t position = step.work.positions[size_t(row)];
  const int32_t block_size = step.kv.layout.block_size;
  const int32_t block = sequence.block_table[size_t(position / block_size)];
  step.context.table->store_kv(step.kv.layout, step.kv.head(block, layer, int32_t(kv_head)),
                               int32_t(position % block_size), key, value);
}

inline kernels::LinearArgs product(const Step& step, const float* x, int64_t rows, int32_t slot,
                                   int32_t bias, float* y) {
  const kernels::PackedMatrix w = step.weights.matrix(slot);
  return {
      .x = x, .ldx = w.k, .w = w, .bias = step.weights.bias(bias), .y = y, .ldy = w.n, .m = rows};
}

inline void norm(const Step& step, const float* x, int64_t rows, int32_t slot, float* out) {
  kernels::rms_norm(step.context, x, rows, step.spec.hidden, step.weights.vector(slot).data(),
                    step.spec.norm_eps, out);
}

// Moves the wanted rows of a buffer with rows of `size` elements to the front.
template <typename T>
void keep_wanted_rows(const Step& step, std::vector<T>& buffer, int64_t size) {
  int64_t to = 0;
  for (const int32_t from : step.batch.wanted_rows) {
    std::memmove(buffer.data() + to++ * size, buffer.data() + from * size,
                 size_t(size) * sizeof(T));
  }
}

}  // namespace rlgen::models
