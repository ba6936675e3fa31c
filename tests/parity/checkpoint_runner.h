#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exact/checkpoints.h"
#include "models/model.h"

namespace rlgen::parity {

// A checkpoint with its weights in memory. Immutable.
struct LoadedModel {
  models::Decoder decoder;
  std::shared_ptr<const models::WeightSet> weights;
};

StatusOr<LoadedModel> load_model(const std::string& folder, int32_t max_model_len);

// The same model with the rows of one tensor set to zero.
LoadedModel with_zeroed(const LoadedModel& model, const models::WeightEntry& entry);

// Tokens to append to a sequence.
struct Feed {
  int32_t sequence = 0;
  std::vector<int32_t> tokens;
};

struct RunOptions {
  kernels::Isa isa = kernels::Isa::kScalar;
  int threads = 1;
  int32_t block_size = 16;
  DType kv_dtype = DType::kFloat32;
};

// Sequences that grow step by step, with keys and values in blocks that are handed out in a mixed
// order, so that a wrong block table shows.
class SequenceRun {
 public:
  SequenceRun(const LoadedModel& model, int32_t sequences, int32_t max_tokens, RunOptions options);

  // One forward pass over all feeds; logits of every row, [rows, vocab_rows].
  std::vector<float> step(std::span<const Feed> feeds);
  // The same for the wanted rows only.
  std::vector<float> step(std::span<const Feed> feeds, std::vector<int32_t> wanted_rows);
  // One feed.
  std::vector<float> feed(int32_t sequence, std::vector<int32_t> tokens);

  // Steps from now on take down the routes of their rows.
  void record_routes() { records_routes_ = true; }
  // Of the last step, [rows, layers, top_k] of route_axis.
  const std::vector<int32_t>& routes() const { return routes_; }
  // The next step's rows go through these experts, likewise [rows, layers, top_k].
  void give_routes(std::vector<int32_t> routes) { given_routes_ = std::move(routes); }

 private:
  struct Sequence {
    std::vector<int32_t> blocks;
    int64_t length = 0;
  };

  const LoadedModel& model_;
  ThreadPool pool_;
  kernels::KernelContext context_;
  std::vector<std::byte> cache_;
  kernels::KvCacheView kv_;
  std::vector<Sequence> sequences_;
  models::Workspace workspace_;
  bool records_routes_ = false;
  std::vector<int32_t> routes_;
  std::vector<int32_t> given_routes_;
};

// The row of `logits` that belongs to row `row`.
std::span<const float> logits_row(std::span<const float> logits, const LoadedModel& model,
                                  int64_t row);

// Lowest id of the largest logit below `limit`.
int32_t argmax(std::span<const float> logits, int64_t limit);

// log softmax at `token` over ids below `limit`, in double.
double logprob(std::span<const float> logits, int64_t limit, int32_t token);

// `count` token ids of the model, the same for the same seed.
std::vector<int32_t> some_tokens(const LoadedModel& model, int64_t count, uint32_t seed);

}  // namespace rlgen::parity
