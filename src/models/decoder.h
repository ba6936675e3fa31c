#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "models/decoder_spec.h"
#include "models/weights.h"

namespace rlgen::models {

// The rows of one step, sequence after sequence.
struct BatchSequence {
  std::span<const int32_t> block_table;  // KV blocks that hold positions 0 .. last row's
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
  int32_t adapter_slot = -1;  // -1: no adapter
};

struct StepBatch {
  std::vector<int32_t> token_ids;  // [rows]
  std::vector<BatchSequence> sequences;
  std::vector<int32_t> wanted_rows;  // rows whose logits are wanted, ascending
};

// Slots of the name table that the forward pass reads, looked up once.
struct DecoderSlots {
  struct Layer {
    int32_t input_norm, qkv, qkv_bias, q_norm, k_norm, output, output_bias, post_norm, gate_up,
        gate_up_bias, down, down_bias;
  };
  int32_t embedding = -1;
  int32_t final_norm = -1;
  int32_t head = -1;
  std::vector<Layer> layers;
};

// A model ready to run: what it is and where its weights lie. Immutable, shared by threads.
struct Decoder {
  DecoderSpec spec;
  std::shared_ptr<const NameTable> table;
  DecoderSlots slots;
};

// Buffers of one engine, grown on demand and reused between steps.
struct Workspace {
  std::vector<float> hidden, normed, qkv, attended, gate_up, activated, cos, sin, wanted;
};

// Runs the rows through the model: writes their keys and values to `kv` (float modes already set by
// the pool's hook) and gives logits[w, :] for wanted row w, [wanted, vocab_rows] row-major.
// Token ids and block tables must be valid; nothing is checked here.
void forward(const Decoder& decoder, const WeightSet& weights, const StepBatch& batch,
             const kernels::KvCacheView& kv, const kernels::KernelContext& context,
             Workspace* workspace, float* logits);

}  // namespace rlgen::models
