#include "parity/checkpoint_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rlgen::parity {
namespace {

using models::BatchSequence;
using models::StepBatch;

int32_t blocks_for(int32_t tokens, int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

}  // namespace

StatusOr<LoadedModel> load_model(const std::string& folder, int32_t max_model_len) {
  RLGEN_ASSIGN_OR_RETURN(models::Model model, models::open_model(folder, max_model_len));
  const std::shared_ptr<const models::NameTable> table = model.decoder.table;
  RLGEN_ASSIGN_OR_RETURN(std::shared_ptr<Region> region,
                         Region::create(int64_t(table->total_bytes)));
  for (const models::StoredTensor& tensor : model.tensors.tensors()) {
    const models::WeightEntry* entry = table->find(tensor.name);
    if (entry == nullptr) continue;
    models::write_rows(*table, *entry, tensor.dtype, 0, entry->rows(), tensor.bytes.data(),
                       region->data());
  }
  auto weights = std::make_shared<const models::WeightSet>(table, std::move(region), 0, 1);
  return LoadedModel{std::move(model.decoder), std::move(weights)};
}

LoadedModel with_zeroed(const LoadedModel& model, const models::WeightEntry& entry) {
  const auto& old = *model.weights->region();
  auto region = *Region::create(old.size());
  std::memcpy(region->data(), old.data(), size_t(old.size()));
  const std::vector<std::byte> zeros(size_t(entry.shape.num_elements()) * 4);
  models::write_rows(*model.decoder.table, entry, DType::kFloat32, 0, entry.rows(), zeros.data(),
                     region->data());
  return {model.decoder,
          std::make_shared<const models::WeightSet>(model.decoder.table, std::move(region), 0, 2)};
}

SequenceRun::SequenceRun(const LoadedModel& model, int32_t sequences, int32_t max_tokens,
                         RunOptions options)
    : model_(model), pool_(options.threads) {
  context_ = {kernels::kernel_table(options.isa), &pool_};
  const int32_t blocks = blocks_for(max_tokens, options.block_size);
  kv_.layout = models::kv_layout(model.decoder.spec, options.kv_dtype, options.block_size);
  // Every unwritten slot holds NaN: a kernel that reads one cannot hide it.
  cache_.assign(kv_.layout.block_stride() * size_t(blocks) * size_t(sequences) + 64,
                std::byte(0xff));
  const auto address = reinterpret_cast<uintptr_t>(cache_.data());
  kv_.data = cache_.data() + (64 - address % 64) % 64;
  sequences_.resize(size_t(sequences));
  for (int32_t block = blocks * sequences - 1; block >= 0; --block) {
    sequences_[size_t(block % sequences)].blocks.push_back(block);
  }
}

std::vector<float> SequenceRun::step(std::span<const Feed> feeds,
                                     std::vector<int32_t> wanted_rows) {
  StepBatch batch;
  for (const Feed& feed : feeds) {
    Sequence& sequence = sequences_[size_t(feed.sequence)];
    batch.sequences.push_back({.block_table = sequence.blocks,
                               .first_row = int64_t(batch.token_ids.size()),
                               .rows = int64_t(feed.tokens.size()),
                               .first_position = sequence.length});
    sequence.length += int64_t(feed.tokens.size());
    batch.token_ids.insert(batch.token_ids.end(), feed.tokens.begin(), feed.tokens.end());
  }
  batch.wanted_rows = std::move(wanted_rows);
  const models::RouteAxis axis = models::route_axis(model_.decoder.spec);
  routes_.assign(batch.token_ids.size() * size_t(axis.layers * axis.top_k), -7);
  if (records_routes_) batch.routes = routes_.data();
  if (!given_routes_.empty()) batch.given_routes = given_routes_.data();
  std::vector<float> logits(batch.wanted_rows.size() * size_t(model_.decoder.spec.vocab_rows));
  models::forward(model_.decoder, *model_.weights, batch, kv_, context_, &workspace_,
                  logits.data());
  given_routes_.clear();
  return logits;
}

std::vector<float> SequenceRun::step(std::span<const Feed> feeds) {
  std::vector<int32_t> rows;
  for (const Feed& feed : feeds) {
    for (size_t i = 0; i < feed.tokens.size(); ++i) rows.push_back(int32_t(rows.size()));
  }
  return step(feeds, std::move(rows));
}

std::vector<float> SequenceRun::feed(int32_t sequence, std::vector<int32_t> tokens) {
  const Feed one{sequence, std::move(tokens)};
  return step(std::span(&one, 1));
}

std::span<const float> logits_row(std::span<const float> logits, const LoadedModel& model,
                                  int64_t row) {
  const auto size = size_t(model.decoder.spec.vocab_rows);
  return logits.subspan(size_t(row) * size, size);
}

int32_t argmax(std::span<const float> logits, int64_t limit) {
  const auto end = logits.begin() + limit;
  return int32_t(std::max_element(logits.begin(), end) - logits.begin());
}

double logprob(std::span<const float> logits, int64_t limit, int32_t token) {
  const double max = *std::max_element(logits.begin(), logits.begin() + limit);
  double sum = 0.0;
  for (int64_t i = 0; i < limit; ++i) sum += std::exp(double(logits[size_t(i)]) - max);
  return double(logits[size_t(token)]) - max - std::log(sum);
}

std::vector<int32_t> some_tokens(const LoadedModel& model, int64_t count, uint32_t seed) {
  std::vector<int32_t> tokens;
  uint32_t state = seed * 2654435761u + 12345u;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(int32_t((state >> 8) % uint32_t(model.decoder.spec.vocab_rows)));
  }
  return tokens;
}

}  // namespace rlgen::parity
