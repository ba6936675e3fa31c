#include "models/families/decoder_names.h"

#include <fmt/format.h>

#include <utility>

#include "models/families/latent_names.h"
#include "models/families/table_builder.h"

namespace rlgen::models {
namespace {

constexpr std::string_view kGroupedRouter = "mlp.gate";

std::string count_of(const ExpertSpec& experts) {
  return fmt::format("{} is {}", experts.count_key, experts.count);
}

void add_router_slot(const DecoderSpec& spec, const ExpertNames& experts, LayerNames* names) {
  const std::string own = fmt::format("{}{}.weight", names->tensors, experts.router);
  const bool renamed = experts.router != kGroupedRouter && !experts.transposed;
  names->table.matrix(names->slots + "router", spec.hidden);
  names->table.outside_profile();
  names->table.sized_by(count_of(spec.experts));
  names->table.fill(own, spec.experts.count, renamed ? NameForm::kSeparate : NameForm::kOnly);
  if (renamed) {
    names->table.grouped(fmt::format("{}{}.weight", names->tensors, kGroupedRouter),
                         Shape{spec.experts.count, spec.hidden});
  }
  names->table.close();
}

// A bias of the router, an element for each expert.
void add_router_vector(const DecoderSpec& spec, const ExpertNames& experts, std::string_view slot,
                       std::string_view tensor, LayerNames* names) {
  names->table.vector(names->slots + std::string(slot));
  names->table.sized_by(count_of(spec.experts));
  names->table.must_be_finite();
  names->table
      .fill(fmt::format("{}{}.{}", names->tensors, experts.router, tensor), spec.experts.count)
      .close();
}

// The matrices of all experts: of each those of `parts`, below each other.
void add_stack(const DecoderSpec& spec, const ExpertNames& experts, std::string_view slot,
               std::initializer_list<LayerPart> parts, int64_t columns,
               std::string_view grouped_name, LayerNames* names) {
  const int64_t count = spec.experts.count;
  names->table.matrix(names->slots + std::string(slot), columns, count);
  names->table.sized_by(count_of(spec.experts));
  int64_t rows = 0;
  for (const LayerPart& part : parts) rows += part.rows;
  for (int64_t expert = 0; expert < count; ++expert) {
    for (const LayerPart& part : parts) {
      names->table.fill(
          fmt::format("{}{}.{}.{}.weight", names->tensors, experts.experts, expert, part.tensor),
          part.rows, NameForm::kSeparate);
    }
  }
  names->table.grouped(fmt::format("{}mlp.experts.{}", names->tensors, grouped_name),
                       Shape{count, rows, columns});
  names->table.close();
}

// The matrices of all experts, [rows, columns] each, and their biases under names that hold them
// transposed.
void add_transposed_stack(const DecoderSpec& spec, const std::string& slot,
                          const std::string& tensor, std::pair<int64_t, int64_t> shape,
                          bool interleaved, TableBuilder* table) {
  const auto [rows, columns] = shape;
  const int64_t count = spec.experts.count;
  table->matrix(slot, columns, count);
  table->sized_by(count_of(spec.experts));
  table->fill_whole(tensor, Shape{count, columns, rows},
                    {.transposed = true, .interleaved = interleaved});
  table->close();
  if (!spec.experts.bias) return;
  table->vector(slot + "_bias");
  table->sized_by(count_of(spec.experts));
  table->fill_whole(tensor + "_bias", Shape{count, rows}, {.interleaved = interleaved});
  table->close();
}

void add_transposed_stacks(const DecoderSpec& spec, const ExpertNames& experts, LayerNames* names) {
  const int64_t inner = spec.experts.intermediate;
  const std::string tensors = fmt::format("{}{}.", names->tensors, experts.experts);
  add_transposed_stack(spec, names->slots + "experts_gate_up", tensors + "gate_up_proj",
                       {2 * inner, spec.hidden}, /*interleaved=*/true, &names->table);
  add_transposed_stack(spec, names->slots + "experts_down", tensors + "down_proj",
                       {spec.hidden, inner}, /*interleaved=*/false, &names->table);
}

void add_shared_slots(const DecoderSpec& spec, const ExpertNames& experts, LayerNames* names) {
  const int64_t inner = spec.experts.shared_intermediate;
  const auto part = [&](std::string_view name) {
    return fmt::format("{}.{}", experts.shared, name);
  };
  const std::string gate = part("gate_proj");
  const std::string up = part("up_proj");
  const std::string down = part("down_proj");
  names->linear("shared_gate_up", spec.hidden, {{gate, inner}, {up, inner}}, /*biased=*/false);
  names->linear("shared_down", inner, {{down, spec.hidden}}, /*biased=*/false);
  if (!spec.experts.shared_gate) return;
  names->table.matrix(names->slots + "shared_gate", spec.hidden);
  names->table.outside_profile();
  names->table.fill(names->tensors + "mlp.shared_expert_gate.weight", 1).close();
}

void add_expert_slots(const DecoderSpec& spec, const ExpertNames& experts, LayerNames* names) {
  const int64_t inner = spec.experts.intermediate;
  add_router_slot(spec, experts, names);
  if (spec.experts.router_bias) add_router_vector(spec, experts, "router_bias", "bias", names);
  if (spec.experts.choice_bias) {
    add_router_vector(spec, experts, "router_choice_bias", "e_score_correction_bias", names);
  }
  if (experts.transposed) return add_transposed_stacks(spec, experts, names);
  add_stack(spec, experts, "experts_gate_up", {{experts.gate, inner}, {experts.up, inner}},
            spec.hidden, "gate_up_proj", names);
  add_stack(spec, experts, "experts_down", {{experts.down, spec.hidden}}, inner, "down_proj",
            names);
  if (spec.experts.shared_intermediate > 0) add_shared_slots(spec, experts, names);
}

void add_attention(const DecoderSpec& spec, LayerNames* names) {
  const int64_t head = spec.head_dim;
  const int64_t queries = spec.heads * head;
  const int64_t keys = spec.kv_heads * head;
  names->linear(
      "qkv", spec.hidden,
      {{"self_attn.q_proj", queries}, {"self_attn.k_proj", keys}, {"self_attn.v_proj", keys}},
      spec.qkv_bias);
  if (spec.qk_norm) {
    const bool rows = spec.qk_norm_rows;
    names->vector("q_norm", {{"self_attn.q_norm", rows ? queries : head}}, "weight");
    names->vector("k_norm", {{"self_attn.k_norm", rows ? keys : head}}, "weight");
  }
  if (spec.sinks) {
    names->table.vector(names->slots + "sinks");
    names->table.fill(names->tensors + "self_attn.sinks", spec.heads).close();
  }
  names->linear("output", queries, {{"self_attn.o_proj", spec.hidden}}, spec.output_bias);
}

void add_layer(const DecoderSpec& spec, const ExpertNames& experts, int32_t layer,
               TableBuilder* table) {
  LayerNames names{*table, fmt::format("model.layers.{}.", layer),
                   fmt::format("layers.{}.", layer)};
  names.vector("input_norm", {{"input_layernorm", spec.hidden}}, "weight");
  if (spec.latent.rank > 0) {
    add_latent_attention(spec, &names);
  } else {
    add_attention(spec, &names);
  }
  names.vector("post_norm", {{"post_attention_layernorm", spec.hidden}}, "weight");
  if (spec.layer[size_t(layer)].sparse) return add_expert_slots(spec, experts, &names);
  names.linear("gate_up", spec.hidden,
               {{"mlp.gate_proj", spec.intermediate}, {"mlp.up_proj", spec.intermediate}},
               spec.mlp_bias);
  names.linear("down", spec.intermediate, {{"mlp.down_proj", spec.hidden}}, spec.mlp_bias);
}

}  // namespace

NameTable decoder_names(const DecoderSpec& spec, const ExpertNames& experts) {
  TableBuilder table;
  table.matrix("embedding", spec.hidden);
  table.fill("model.embed_tokens.weight", spec.vocab_rows);
  if (spec.tied_head) table.alias("lm_head.weight", spec.vocab_rows);
  table.close();
  for (int32_t i = 0; i < spec.layers; ++i) add_layer(spec, experts, i, &table);
  table.vector("final_norm");
  table.fill("model.norm.weight", spec.hidden).close();
  if (!spec.tied_head) {
    table.matrix("head", spec.hidden);
    table.fill("lm_head.weight", spec.vocab_rows).close();
  }
  return table.take();
}

NameTable dense_names(const DecoderSpec& spec) { return decoder_names(spec, {}); }

}  // namespace rlgen::models
