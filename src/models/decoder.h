#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/moe.h"
#include "kernels/ops.h"
#include "models/decoder_spec.h"
#include "models/forward_observer.h"
#include "models/weights.h"

namespace rlgen::models {

// The rows of one step, sequence after sequence.
struct BatchSequence {
  uint64_t id = 0;                       // the caller's name for it; only an observer reads it
  std::span<const int32_t> block_table;  // KV blocks that hold positions 0 .. last row's
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
  int32_t adapter_slot = -1;  // -1: no adapter; no other is served yet
};

// What a row's routes are: the experts of each sparse layer, in order.
struct RouteAxis {
  int32_t layers = 0;   // sparse layers only
  int32_t top_k = 0;    // experts of a row in each
  int32_t experts = 0;  // ids are below it
};

// All 0 for a dense model.
RouteAxis route_axis(const DecoderSpec& spec);

struct StepBatch {
  ForwardObserver* observer = nullptr;  // null: nobody looks on
  std::vector<int32_t> token_ids;       // [rows]
  std::vector<BatchSequence> sequences;
  std::vector<int32_t> wanted_rows;          // rows whose logits are wanted, ascending, each once
  std::atomic<int64_t>* progress = nullptr;  // where given, grows by one with each layer
  // [rows, layers, top_k] of route_axis, written where given: the expert ids of each row in slot
  // order (highest weight first; given routes as they were given), for every row of the step.
  int32_t* routes = nullptr;
  // [rows, layers, top_k]: used in place of the router's choice, weighted by the router's scores of
  // the given ids. A row-layer whose first id is -1 lets the router decide. Ids must be valid and
  // differ within a row-layer. A dense model reads and writes neither.
  const int32_t* given_routes = nullptr;
};

// Slots of the name table that the forward pass reads, looked up once.
struct DecoderSlots {
  struct Layer {
    // -1 where the layer has none.
    int32_t input_norm, qkv, qkv_bias, q_norm, k_norm, sinks, output, output_bias, query_latent,
        query_latent_bias, query_latent_norm, queries, latent, latent_bias, latent_norm,
        latent_keys, latent_values, post_norm, gate_up, gate_up_bias, down, down_bias, router,
        router_bias, router_choice_bias, experts_gate_up, experts_gate_up_bias, experts_down,
        experts_down_bias, shared_gate_up, shared_down, shared_gate;
    int32_t route_layer;  // its place on the route axis
  };
  int32_t embedding = -1;
  int32_t final_norm = -1;
  int32_t head = -1;  // a tied head: the embedding's slot
  std::vector<Layer> layers;
};

// A model ready to run: what it is and where its weights lie. Immutable, shared by threads.
struct Decoder {
  DecoderSpec spec;
  std::shared_ptr<const NameTable> table;
  DecoderSlots slots;
};

// Looks the slots up. `table` is the family's for this specification.
Decoder make_decoder(DecoderSpec spec, std::shared_ptr<const NameTable> table);

// Elements of a row of queries, keys and values, side by side; with latent attention of queries
// alone, which are made for the latents as keys.
int64_t qkv_size(const DecoderSpec& spec);
// Elements of a row of what the heads give, before the output projection.
int64_t attended_size(const DecoderSpec& spec);

// How the KV blocks of this model look.
kernels::KvLayout kv_layout(const DecoderSpec& spec, DType dtype, int32_t block_size);

// Those of latent attention, with the sizes of LatentSpec.
struct LatentWorkspace {
  std::vector<float> query_latents;       // [R, query_rank]
  std::vector<float> queries;             // [R, heads, plain + rotated]
  std::vector<float> keys;                // [R, rank + rotated]
  std::vector<float> attended;            // [R, heads, rank]
  std::vector<int32_t> rows_by_head;      // [heads, R]
  std::vector<kernels::RowGroup> groups;  // [heads]
};

// Buffers of one engine, grown on demand and reused between steps; R rows of the step, W wanted
// rows, half = rotated pairs of a head.
struct Workspace {
  std::vector<float> hidden;    // [R, hidden]; at the end of the last layer [W, hidden]
  std::vector<float> normed;    // [R, hidden]
  std::vector<float> qkv;       // [R, qkv_size]
  std::vector<float> attended;  // [R, attended_size]
  LatentWorkspace latent;
  std::vector<float> activated;       // [R, intermediate]
  std::vector<float> router_scores;   // [R, experts]
  std::vector<int32_t> expert_ids;    // [R, top_k]
  std::vector<float> expert_weights;  // [R, top_k]
  std::vector<float> shared_weights;  // [R]
  kernels::ExpertWorkspace experts;
  std::vector<float> cos, sin;           // [R, half]
  std::vector<int64_t> positions;        // [R]
  std::vector<int32_t> sequence_of_row;  // [R]
  std::vector<kernels::AttentionSequence> sequences;
};

// Runs the rows through the model: writes their keys and values to `kv` and gives
// logits[w, :] for wanted row w, [wanted, vocab_rows] row-major. Each row's result depends on that
// row, the keys and values of its sequence and the weights alone. Runs on the pool of `context`,
// which sets the float modes; one call at a time per workspace and pool.
// Token ids, wanted rows, positions and block tables must be valid; nothing is checked here.
void forward(const Decoder& decoder, const WeightSet& weights, const StepBatch& batch,
             const kernels::KvCacheView& kv, const kernels::KernelContext& context,
             Workspace* workspace, float* logits);

}  // namespace rlgen::models
