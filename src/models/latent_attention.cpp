#include "models/latent_attention.h"

#include <algorithm>

#include "base/scratch.h"

namespace rlgen::models {
namespace {

// y[r, h, :] = the head's matrix times x[r, h, :], for the first `rows` rows. Heads lie x_size and
// y_size elements apart, all heads of a row together.
void multiply_heads(Step& step, int64_t rows, const kernels::PackedStack& matrices, const float* x,
                    int64_t x_size, float* y, int64_t y_size) {
  LatentWorkspace& work = step.work.latent;
  const int64_t heads = matrices.count;
  int32_t* source = grown(work.rows_by_head, rows * heads);
  work.groups.clear();
  for (int64_t head = 0; head < heads; ++head) {
    work.groups.push_back(
        {.w = matrices.at(head), .row = head * rows, .rows = rows, .y = y + head * y_size});
    for (int64_t row = 0; row < rows; ++row) *source++ = int32_t(row * heads + head);
  }
  kernels::grouped_linear(step.context, {.x = x,
                                         .ldx = x_size,
                                         .source = work.rows_by_head.data(),
                                         .groups = work.groups,
                                         .ldy = heads * y_size,
                                         .m = rows * heads});
}

// Rotates the pairs of x, which are neighbours or half a head apart, into `out` as halves.
void rotate(const Step& step, const float* x, int64_t row, float* out) {
  const int64_t half = step.half();
  const bool interleaved = step.spec.latent.interleaved;
  for (int64_t i = 0; i < half; ++i) {
    out[i] = interleaved ? x[2 * i] : x[i];
    out[half + i] = interleaved ? x[2 * i + 1] : x[half + i];
  }
  step.context.table->rope(out, half, step.work.cos.data() + row * half,
                           step.work.sin.data() + row * half);
}

// Norms the latent of one row, rotates what stands behind it and stores both as the row's key.
void finish_key(const Step& step, int32_t layer, int64_t row, const float* norm_weight,
                float* key) {
  const LatentSpec& latent = step.spec.latent;
  step.context.table->rms_norm(key, norm_weight, latent.rank, latent.norm_eps, key);
  thread_local std::vector<float> scratch;
  float* const rotated = grown(scratch, latent.rotated);
  rotate(step, key + latent.rank, row, rotated);
  std::copy_n(rotated, latent.rotated, key + latent.rank);
  store_head(step, layer, row, 0, key, nullptr);
}

// Queries as their projection gives them, [rows, heads, plain + rotated].
const float* project_queries(Step& step, const DecoderSlots::Layer& slots) {
  const LatentSpec& latent = step.spec.latent;
  LatentWorkspace& work = step.work.latent;
  const int64_t rows = step.rows();
  const float* from = step.work.normed.data();
  if (latent.query_rank > 0) {
    float* query_latents = grown(work.query_latents, rows * latent.query_rank);
    kernels::linear(step.context, product(step, from, rows, slots.query_latent,
                                          slots.query_latent_bias, query_latents));
    kernels::rms_norm(step.context, query_latents, rows, latent.query_rank,
                      step.weights.vector(slots.query_latent_norm).data(), latent.norm_eps,
                      query_latents);
    from = query_latents;
  }
  const int64_t size = latent.plain + latent.rotated;
  float* queries = grown(work.queries, rows * step.spec.heads * size);
  kernels::linear(step.context, product(step, from, rows, slots.queries, -1, queries));
  return queries;
}

}  // namespace

void project_latents(Step& step, int32_t layer, const DecoderSlots::Layer& slots) {
  const LatentSpec& latent = step.spec.latent;
  const int64_t rows = step.rows();
  const int64_t heads = step.spec.heads;
  const int64_t query_size = latent.plain + latent.rotated;
  const int64_t key_size = step.spec.head_dim;
  float* keys = grown(step.work.latent.keys, rows * key_size);
  kernels::linear(step.context, product(step, step.work.normed.data(), rows, slots.latent,
                                        slots.latent_bias, keys));
  const float* queries = project_queries(step, slots);
  float* absorbed = grown(step.work.qkv, rows * heads * key_size);
  const float* norm_weight = step.weights.vector(slots.latent_norm).data();
  for_rows(step, rows, [&](int64_t row) {
    finish_key(step, layer, row, norm_weight, keys + row * key_size);
    for (int64_t i = row * heads; i < (row + 1) * heads; ++i) {
      rotate(step, queries + i * query_size + latent.plain, row,
             absorbed + i * key_size + latent.rank);
    }
  });
  multiply_heads(step, rows, step.weights.stack(slots.latent_keys), queries, query_size, absorbed,
                 key_size);
}

void attend_latents(Step& step, int32_t layer, const DecoderSlots::Layer& slots) {
  const LatentSpec& latent = step.spec.latent;
  const int64_t rows = step.rows();
  const int64_t size = int64_t(step.spec.heads) * latent.rank;
  float* found = grown(step.work.latent.attended, rows * size);
  kernels::attention(step.context,
                     {.q = step.work.qkv.data(),
                      .ldq = step.query_size(),
                      .out = found,
                      .ldo = size,
                      .heads = step.spec.heads,
                      .kv = step.kv,
                      .layer = layer,
                      .scale = step.spec.attention_scale,
                      .window = step.spec.layer[size_t(layer)].window},
                     step.work.sequences);
  float* attended = grown(step.work.attended, rows * step.attended_size());
  multiply_heads(step, rows, step.weights.stack(slots.latent_values), found, latent.rank, attended,
                 latent.value);
}

}  // namespace rlgen::models
