#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/scratch.h"
#include "models/forward_step.h"
#include "models/latent_attention.h"
#include "models/sparse_layer.h"

namespace rlgen::models {
namespace {

void observe(const Step& step, ForwardPoint point, int32_t layer, const float* values,
             int64_t width) {
  if (step.batch.observer == nullptr) return;
  step.batch.observer->on_rows(step.batch, {point, layer, values, width, step.kept});
}

// Where each row stands: its sequence and its position.
void place_rows(Step& step) {
  Workspace& work = step.work;
  work.positions.resize(size_t(step.rows()));
  work.sequence_of_row.resize(size_t(step.rows()));
  work.sequences.clear();
  for (const BatchSequence& sequence : step.batch.sequences) {
    for (int64_t i = 0; i < sequence.rows; ++i) {
      work.positions[size_t(sequence.first_row + i)] = sequence.first_position + i;
      work.sequence_of_row[size_t(sequence.first_row + i)] = int32_t(work.sequences.size());
    }
    work.sequences.push_back(
        {sequence.block_table.data(), sequence.first_row, sequence.rows, sequence.first_position});
  }
}

void embed(Step& step) {
  const kernels::PackedMatrix table = step.weights.matrix(step.decoder.slots.embedding);
  float* hidden = grown(step.work.hidden, step.rows() * step.spec.hidden);
  for_rows(step, step.rows(), [&](int64_t row) {
    step.context.table->gather_row(table, step.batch.token_ids[size_t(row)],
                                   hidden + row * step.spec.hidden);
  });
}

void rotary_angles(Step& step) {
  const int64_t half = step.half();
  float* cos = grown(step.work.cos, step.rows() * half);
  float* sin = grown(step.work.sin, step.rows() * half);
  const RotarySpec& rotary = step.spec.rotary;
  for_rows(step, step.rows(), [&](int64_t row) {
    step.context.table->rope_angles(step.work.positions[size_t(row)], rotary.inv_freq.data(), half,
                                    rotary.attention_factor, cos + row * half, sin + row * half);
  });
}

// Norms (where the model has them) and rotates one head of one row in place.
void shape_head(const Step& step, float* head, const float* norm_weight, int64_t row, bool rotary) {
  const kernels::KernelTable& table = *step.context.table;
  if (norm_weight != nullptr) {
    table.rms_norm(head, norm_weight, step.spec.head_dim, step.spec.norm_eps, head);
  }
  if (rotary) {
    table.rope(head, step.half(), step.work.cos.data() + row * step.half(),
               step.work.sin.data() + row * step.half());
  }
}

// Norms the queries and the keys of one row, and clips both and the values.
void shape_row(const Step& step, float* row, const DecoderSlots::Layer& slots) {
  const kernels::KernelTable& table = *step.context.table;
  float* const keys = row + step.query_size();
  table.rms_norm(row, step.weights.vector(slots.q_norm).data(), step.query_size(),
                 step.spec.norm_eps, row);
  table.rms_norm(keys, step.weights.vector(slots.k_norm).data(), step.key_size(),
                 step.spec.norm_eps, keys);
  if (step.spec.clip_qkv > 0.0f) table.clip(row, step.spec.clip_qkv, step.qkv_size());
}

// Queries, keys and values of every row; keys and values go to the cache.
void project_heads(Step& step, int32_t layer, const DecoderSlots::Layer& slots) {
  Workspace& work = step.work;
  float* qkv = grown(work.qkv, step.rows() * step.qkv_size());
  const bool rotary = step.spec.layer[size_t(layer)].rotary;
  const bool by_head = !step.spec.qk_norm_rows;
  const float* q_norm = by_head ? step.weights.bias(slots.q_norm) : nullptr;
  const float* k_norm = by_head ? step.weights.bias(slots.k_norm) : nullptr;
  const int64_t heads = step.spec.heads;
  const int64_t keys_end = heads + step.spec.kv_heads;
  const auto finish_head = [&](int64_t row, int64_t h) {
    float* head = qkv + row * step.qkv_size() + h * step.spec.head_dim;
    if (h < heads) return shape_head(step, head, q_norm, row, rotary);
    if (h >= keys_end) return store_head(step, layer, row, h - keys_end, nullptr, head);
    shape_head(step, head, k_norm, row, rotary);
    store_head(step, layer, row, h - heads, head, nullptr);
  };
  const kernels::LinearArgs args =
      product(step, work.normed.data(), step.rows(), slots.qkv, slots.qkv_bias, qkv);
  if (step.spec.qk_norm_rows) {
    kernels::linear(step.context, args);
    return for_rows(step, step.rows(), [&](int64_t row) {
      shape_row(step, qkv + row * step.qkv_size(), slots);
      for (int64_t h = 0; h < keys_end + step.spec.kv_heads; ++h) finish_head(row, h);
    });
  }
  kernels::linear(step.context, args, step.spec.head_dim, [&](const kernels::OutputBlock& block) {
    const int64_t first = block.column / step.spec.head_dim;
    const int64_t end = (block.column + block.columns) / step.spec.head_dim;
    for (int64_t row = block.row; row < block.row + block.rows; ++row) {
      for (int64_t h = first; h < end; ++h) finish_head(row, h);
    }
  });
}

void attend_heads(Step& step, int32_t layer, const DecoderSlots::Layer& slots) {
  float* attended = grown(step.work.attended, step.rows() * step.query_size());
  kernels::attention(step.context,
                     {.q = step.work.qkv.data(),
                      .ldq = step.qkv_size(),
                      .out = attended,
                      .ldo = step.query_size(),
                      .heads = step.spec.heads,
                      .kv = step.kv,
                      .layer = layer,
                      .scale = step.spec.attention_scale,
                      .window = step.spec.layer[size_t(layer)].window,
                      .sinks = step.weights.bias(slots.sinks)},
                     step.work.sequences);
}

void project(Step& step, int32_t layer, const DecoderSlots::Layer& slots) {
  if (step.spec.latent.rank > 0) return project_latents(step, layer, slots);
  project_heads(step, layer, slots);
}

void attend(Step& step, int32_t layer, const DecoderSlots::Layer& slots) {
  if (step.spec.latent.rank > 0) return attend_latents(step, layer, slots);
  attend_heads(step, layer, slots);
}

// Moves the wanted rows of what the rest of the last layer reads to the front.
int64_t keep_wanted_before_output(Step& step) {
  keep_wanted_rows(step, step.work.hidden, step.spec.hidden);
  keep_wanted_rows(step, step.work.attended, step.attended_size());
  step.kept = true;
  return int64_t(step.batch.wanted_rows.size());
}

void add_attention_output(Step& step, int64_t rows, const DecoderSlots::Layer& slots) {
  Workspace& work = step.work;
  kernels::linear_add(step.context,
                      product(step, work.attended.data(), rows, slots.output, slots.output_bias,
                              work.normed.data()),
                      work.hidden.data());
}

void add_mlp(Step& step, int64_t rows, const DecoderSlots::Layer& slots) {
  Workspace& work = step.work;
  const int64_t size = step.spec.intermediate;
  float* activated = grown(work.activated, rows * size);
  norm(step, work.hidden.data(), rows, slots.post_norm, work.normed.data());
  kernels::gated_linear(
      step.context,
      product(step, work.normed.data(), rows, slots.gate_up, slots.gate_up_bias, nullptr),
      step.spec.gating, activated);
  kernels::linear_add(
      step.context, product(step, activated, rows, slots.down, slots.down_bias, work.normed.data()),
      work.hidden.data());
}

}  // namespace

Decoder make_decoder(DecoderSpec spec, std::shared_ptr<const NameTable> table) {
  DecoderSlots slots;
  slots.embedding = table->slot_index("embedding");
  slots.final_norm = table->slot_index("final_norm");
  slots.head = spec.tied_head ? slots.embedding : table->slot_index("head");
  int32_t route_layer = 0;
  for (int32_t i = 0; i < spec.layers; ++i) {
    const auto at = [&](std::string_view part) {
      return table->slot_index(fmt::format("layers.{}.{}", i, part));
    };
    slots.layers.push_back({.input_norm = at("input_norm"),
                            .qkv = at("qkv"),
                            .qkv_bias = at("qkv_bias"),
                            .q_norm = at("q_norm"),
                            .k_norm = at("k_norm"),
                            .sinks = at("sinks"),
                            .output = at("output"),
                            .output_bias = at("output_bias"),
                            .query_latent = at("query_latent"),
                            .query_latent_bias = at("query_latent_bias"),
                            .query_latent_norm = at("query_latent_norm"),
                            .queries = at("queries"),
                            .latent = at("latent"),
                            .latent_bias = at("latent_bias"),
                            .latent_norm = at("latent_norm"),
                            .latent_keys = at("latent_keys"),
                            .latent_values = at("latent_values"),
                            .post_norm = at("post_norm"),
                            .gate_up = at("gate_up"),
                            .gate_up_bias = at("gate_up_bias"),
                            .down = at("down"),
                            .down_bias = at("down_bias"),
                            .router = at("router"),
                            .router_bias = at("router_bias"),
                            .router_choice_bias = at("router_choice_bias"),
                            .experts_gate_up = at("experts_gate_up"),
                            .experts_gate_up_bias = at("experts_gate_up_bias"),
                            .experts_down = at("experts_down"),
                            .experts_down_bias = at("experts_down_bias"),
                            .shared_gate_up = at("shared_gate_up"),
                            .shared_down = at("shared_down"),
                            .shared_gate = at("shared_gate"),
                            .route_layer = spec.layer[size_t(i)].sparse ? route_layer++ : -1});
  }
  return {std::move(spec), std::move(table), std::move(slots)};
}

RouteAxis route_axis(const DecoderSpec& spec) {
  const auto layers = std::ranges::count_if(spec.layer, &LayerSpec::sparse);
  if (layers == 0) return {};
  return {int32_t(layers), spec.experts.top_k, spec.experts.count};
}

int64_t qkv_size(const DecoderSpec& spec) {
  const int64_t keys_and_values = spec.latent.rank > 0 ? 0 : 2 * int64_t(spec.kv_heads);
  return (spec.heads + keys_and_values) * spec.head_dim;
}

int64_t attended_size(const DecoderSpec& spec) {
  return int64_t(spec.heads) * (spec.latent.rank > 0 ? spec.latent.value : spec.head_dim);
}

kernels::KvLayout kv_layout(const DecoderSpec& spec, DType dtype, int32_t block_size) {
  return {.dtype = dtype,
          .layers = spec.layers,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .value_dim = spec.latent.rank > 0 ? spec.latent.rank : spec.head_dim,
          .values_in_keys = spec.latent.rank > 0,
          .block_size = block_size};
}

void forward(const Decoder& decoder, const WeightSet& weights, const StepBatch& batch,
             const kernels::KvCacheView& kv, const kernels::KernelContext& context,
             Workspace* workspace, float* logits) {
  const DecoderSpec& spec = decoder.spec;
  Step step{decoder, spec, weights, batch, kv, context, *workspace};
  if (step.rows() == 0) return;
  grown(workspace->normed, step.rows() * spec.hidden);
  place_rows(step);
  embed(step);
  observe(step, ForwardPoint::kEmbedding, -1, workspace->hidden.data(), spec.hidden);
  rotary_angles(step);
  int64_t rows = step.rows();
  for (int32_t layer = 0; layer < spec.layers; ++layer) {
    const DecoderSlots::Layer& slots = decoder.slots.layers[size_t(layer)];
    norm(step, workspace->hidden.data(), rows, slots.input_norm, workspace->normed.data());
    observe(step, ForwardPoint::kInputNorm, layer, workspace->normed.data(), spec.hidden);
    project(step, layer, slots);
    observe(step, ForwardPoint::kQkv, layer, workspace->qkv.data(), step.qkv_size());
    if (batch.progress != nullptr) batch.progress->fetch_add(1, std::memory_order_relaxed);
    const bool last = layer + 1 == spec.layers;
    const bool sparse = slots.route_layer >= 0;
    // Every row has a route in a last sparse layer too, though it is not wanted.
    const bool routed = sparse && batch.routes != nullptr;
    if (last && batch.wanted_rows.empty() && !routed) return;
    attend(step, layer, slots);
    observe(step, ForwardPoint::kAttention, layer, workspace->attended.data(),
            step.attended_size());
    if (last && !routed) rows = keep_wanted_before_output(step);
    add_attention_output(step, rows, slots);
    observe(step, ForwardPoint::kPostAttention, layer, workspace->hidden.data(), spec.hidden);
    if (sparse) {
      rows = add_experts(step, rows, slots, last);
    } else {
      add_mlp(step, rows, slots);
    }
    if (rows == 0) return;
    observe(step, ForwardPoint::kOutput, layer, workspace->hidden.data(), spec.hidden);
  }
  norm(step, workspace->hidden.data(), rows, decoder.slots.final_norm, workspace->normed.data());
  observe(step, ForwardPoint::kFinalNorm, -1, workspace->normed.data(), spec.hidden);
  kernels::linear(context,
                  product(step, workspace->normed.data(), rows, decoder.slots.head, -1, logits));
  observe(step, ForwardPoint::kLogits, -1, logits, spec.vocab_rows);
}

}  // namespace rlgen::models
