#include <fmt/format.h>

#include <algorithm>

#include "models/families/dense.h"

namespace rlgen::models {
namespace {

// Collects slots and the tensors that fill them, from row 0 upward.
class TableBuilder {
 public:
  void matrix(std::string slot, int64_t columns) {
    open_ = {std::move(slot), SlotKind::kMatrix};
    open_.k = columns;
  }
  void vector(std::string slot) { open_ = {std::move(slot), SlotKind::kVector}; }

  // The next rows (elements) of the slot that is open.
  TableBuilder& fill(std::string tensor, int64_t rows) {
    const Shape shape = open_.kind == SlotKind::kMatrix ? Shape{rows, open_.k} : Shape{rows};
    table_.entries.push_back({std::move(tensor), shape, int32_t(table_.slots.size()), rows_});
    rows_ += rows;
    return *this;
  }

  // Another name of the first rows of the open slot, which may be absent.
  void alias(std::string tensor, int64_t rows) {
    table_.entries.push_back({std::move(tensor), Shape{rows, open_.k}, int32_t(table_.slots.size()),
                              0, /*optional=*/true});
  }

  void close() {
    const bool matrix = open_.kind == SlotKind::kMatrix;
    open_.n = matrix ? rows_ : 1;
    if (!matrix) open_.k = rows_;
    table_.slots.push_back(std::move(open_));
    rows_ = 0;
  }

  NameTable take() {
    std::ranges::sort(table_.entries, {}, &WeightEntry::name);
    return std::move(table_);
  }

 private:
  NameTable table_;
  WeightSlot open_;
  int64_t rows_ = 0;
};

struct Part {
  std::string_view tensor;  // below the layer's prefix
  int64_t rows;
};

struct LayerNames {
  TableBuilder& table;
  std::string tensors;  // "model.layers.3."
  std::string slots;    // "layers.3."

  void vector(std::string_view slot, std::initializer_list<Part> parts, std::string_view suffix) {
    table.vector(slots + std::string(slot));
    for (const Part& part : parts) {
      table.fill(fmt::format("{}{}.{}", tensors, part.tensor, suffix), part.rows);
    }
    table.close();
  }

  void linear(std::string_view slot, int64_t columns, std::initializer_list<Part> parts,
              bool biased) {
    table.matrix(slots + std::string(slot), columns);
    for (const Part& part : parts) {
      table.fill(fmt::format("{}{}.weight", tensors, part.tensor), part.rows);
    }
    table.close();
    if (biased) vector(fmt::format("{}_bias", slot), parts, "bias");
  }
};

void add_layer(const DecoderSpec& spec, int32_t layer, TableBuilder* table) {
  const int64_t head = spec.head_dim;
  const int64_t queries = spec.heads * head;
  const int64_t keys = spec.kv_heads * head;
  LayerNames names{*table, fmt::format("model.layers.{}.", layer),
                   fmt::format("layers.{}.", layer)};
  names.vector("input_norm", {{"input_layernorm", spec.hidden}}, "weight");
  names.linear(
      "qkv", spec.hidden,
      {{"self_attn.q_proj", queries}, {"self_attn.k_proj", keys}, {"self_attn.v_proj", keys}},
      spec.qkv_bias);
  if (spec.qk_norm) {
    names.vector("q_norm", {{"self_attn.q_norm", head}}, "weight");
    names.vector("k_norm", {{"self_attn.k_norm", head}}, "weight");
  }
  names.linear("output", queries, {{"self_attn.o_proj", spec.hidden}}, spec.output_bias);
  names.vector("post_norm", {{"post_attention_layernorm", spec.hidden}}, "weight");
  names.linear("gate_up", spec.hidden,
               {{"mlp.gate_proj", spec.intermediate}, {"mlp.up_proj", spec.intermediate}},
               spec.mlp_bias);
  names.linear("down", spec.intermediate, {{"mlp.down_proj", spec.hidden}}, spec.mlp_bias);
}

}  // namespace

NameTable dense_names(const DecoderSpec& spec) {
  TableBuilder table;
  table.matrix("embedding", spec.hidden);
  table.fill("model.embed_tokens.weight", spec.vocab_rows);
  if (spec.tied_head) table.alias("lm_head.weight", spec.vocab_rows);
  table.close();
  for (int32_t i = 0; i < spec.layers; ++i) add_layer(spec, i, &table);
  table.vector("final_norm");
  table.fill("model.norm.weight", spec.hidden).close();
  if (!spec.tied_head) {
    table.matrix("head", spec.hidden);
    table.fill("lm_head.weight", spec.vocab_rows).close();
  }
  return table.take();
}

}  // namespace rlgen::models
