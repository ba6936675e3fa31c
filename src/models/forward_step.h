#pragma once

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
  int64_t qkv_size() const { return query_size() + 2 * key_size(); }
  int64_t half() const { return int64_t(spec.rotary.inv_freq.size()); }
};

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
