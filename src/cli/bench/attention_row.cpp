#include <algorithm>
#include <cstring>
#include <numeric>

#include "cli/bench/part_rows.h"
#include "cli/bench/stopwatch.h"
#include "kernels/ops.h"

namespace rlgen::cli {
namespace {

constexpr int kAttentionPasses = 2;
constexpr int kFill = 0x3c;  // a byte that makes small ordinary numbers of every float type

// A cache of `keys` keys in blocks 0, 1, ..., every page of it touched.
struct FilledCache {
  std::shared_ptr<Region> memory;
  kernels::KvCacheView view;
  std::vector<int32_t> block_table;
};

StatusOr<FilledCache> fill_cache(const kernels::KvLayout& layout, int32_t keys, ThreadPool& pool) {
  const int64_t blocks = (int64_t{keys} + layout.block_size - 1) / layout.block_size;
  const auto stride = static_cast<int64_t>(layout.block_stride());
  FilledCache cache;
  RLGEN_ASSIGN_OR_RETURN(cache.memory, Region::create(blocks * stride));
  pool.run(blocks, [&](int64_t block, int) {
    std::memset(cache.memory->data() + block * stride, kFill, static_cast<size_t>(stride));
  });
  cache.view = {.data = cache.memory->data(), .layout = layout};
  cache.block_table.resize(static_cast<size_t>(blocks));
  std::iota(cache.block_table.begin(), cache.block_table.end(), 0);
  return cache;
}

// Seconds of one token's attention in all layers, the best of several passes.
double best_pass(const BenchContext& context, const FilledCache& cache, int32_t keys) {
  const models::DecoderSpec& model = context.model;
  const int64_t size = int64_t{model.heads} * model.head_dim;
  const int64_t out_size = int64_t{model.heads} * context.kv_layout.value_dim;
  const std::vector<float> q(static_cast<size_t>(size), 0.5f);
  std::vector<float> out(static_cast<size_t>(out_size));
  const kernels::AttentionSequence sequence = {.block_table = cache.block_table.data(),
                                               .first_row = 0,
                                               .rows = 1,
                                               .first_position = keys - 1};
  const auto all_layers = [&] {
    for (int32_t layer = 0; layer < model.layers; ++layer) {
      kernels::attention({context.kernels, context.pool.get(), context.profile},
                         {.q = q.data(),
                          .ldq = size,
                          .out = out.data(),
                          .ldo = out_size,
                          .heads = model.heads,
                          .kv = cache.view,
                          .layer = layer,
                          .scale = model.attention_scale,
                          .window = model.layer[static_cast<size_t>(layer)].window},
                         {&sequence, 1});
    }
  };
  return best_seconds(
      kAttentionPasses, [] {}, all_layers);
}

// Bytes of keys and values that one token reads: of a layer with a window only that.
double bytes_read(const BenchContext& context, int32_t keys) {
  double read = 0.0;
  for (const models::LayerSpec& layer : context.model.layer) {
    const int32_t seen = layer.window > 0 ? std::min(layer.window, keys) : keys;
    read += static_cast<double>(seen) * static_cast<double>(context.kv_layout.layer_stride()) /
            context.kv_layout.block_size;
  }
  return read;
}

}  // namespace

StatusOr<Figure> measure_attention(BenchContext& context, const RowSpec& row) {
  const double bytes = bytes_read(context, row.context);
  RLGEN_ASSIGN_OR_RETURN(const FilledCache cache,
                         fill_cache(context.kv_layout, row.context, *context.pool));
  const auto buffer = static_cast<int64_t>(bytes);
  RLGEN_ASSIGN_OR_RETURN(const MachineLimits before, context.meter->measure(buffer));
  const double seconds = best_pass(context, cache, row.context);
  RLGEN_ASSIGN_OR_RETURN(const MachineLimits after, context.meter->measure(buffer));
  Figure figure = {.row = row.name, .value = bytes / seconds / 1e9, .unit = "GB/s"};
  set_limit(&figure, better_of(before, after).read_bytes / 1e9, "reading");
  figure.details = {{"milliseconds", 1e3 * seconds}, {"megabytes", bytes / 1e6}};
  return figure;
}

}  // namespace rlgen::cli
