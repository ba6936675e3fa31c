#pragma once

#include <cstdint>

namespace rlgen::models {

struct StepBatch;

// Places of a forward pass whose values can be looked at, in the order of computation.
enum class ForwardPoint {
  kEmbedding,      // [hidden]
  kInputNorm,      // [hidden], what enters the layer's projections
  kQkv,            // [qkv_size], queries and keys after norm and rotary
  kAttention,      // [attended_size], before the output projection
  kPostAttention,  // [hidden], the residual stream after the attention's output was added
  kOutput,         // [hidden], the residual stream after the layer
  kFinalNorm,      // [hidden]
  kLogits,         // [vocab_rows]
};

inline bool is_layer_point(ForwardPoint point) {
  return point > ForwardPoint::kEmbedding && point < ForwardPoint::kFinalNorm;
}

// Values of one place for rows of a step.
struct ForwardRows {
  ForwardPoint point = ForwardPoint::kEmbedding;
  int32_t layer = -1;             // -1 outside the layers
  const float* values = nullptr;  // [rows, width], valid during the call
  int64_t width = 0;
  bool wanted_only = false;  // the rows are StepBatch::wanted_rows; false: all rows of the batch
};

// Looks on while a forward pass runs. Called on the thread that called forward(), between two parts
// of the pass, with the whole step's rows; it must not change anything that the pass reads.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  virtual void on_rows(const StepBatch& batch, const ForwardRows& rows) = 0;
};

}  // namespace rlgen::models
