#include "engine/routes/route_store.h"

#include <fmt/format.h>

#include <numeric>

namespace rlgen::engine {
namespace {

// A layer without experts has the dummy route.
template <typename Id>
void write_row(const std::vector<int32_t>& places, int32_t top_k, const int32_t* ids,
               std::byte* row) {
  auto* out = reinterpret_cast<Id*>(row);
  for (const int32_t place : places) {
    const int32_t* const from = place < 0 ? nullptr : ids + int64_t(place) * top_k;
    for (int32_t k = 0; k < top_k; ++k) *out++ = Id(from == nullptr ? k : from[k]);
  }
}

}  // namespace

RouteFacts route_facts(RouteCapture capture, const RouteLayers& layers) {
  if (capture == RouteCapture::kOff) return {};
  const bool all = capture == RouteCapture::kAllLayers;
  return {.layers = all ? int32_t(layers.place.size()) : layers.expert_layers,
          .top_k = layers.top_k,
          .experts = layers.experts};
}

size_t route_bytes(const RouteFacts& facts, int32_t block_size) {
  return empty_route_span(facts, 0).row_bytes() * size_t(block_size);
}

StatusOr<RouteStore> RouteStore::create(RouteCapture capture, const RouteLayers& layers,
                                        const kernels::KvCacheView& kv) {
  if (layers.expert_layers == 0) {
    return absl::InvalidArgumentError(
        "the model has no experts, so there are no routes to record; leave "
        "enable_return_routed_experts off");
  }
  RouteStore store;
  if (capture == RouteCapture::kAllLayers) {
    store.places_ = layers.place;
  } else {
    store.places_.resize(size_t(layers.expert_layers));
    std::iota(store.places_.begin(), store.places_.end(), 0);
  }
  store.facts_ = route_facts(capture, layers);
  store.kv_ = kv;
  store.row_bytes_ = empty_route_span(store.facts_, 0).row_bytes();
  const size_t needed = route_bytes(store.facts_, kv.layout.block_size);
  if (kv.layout.side_bytes >= needed) return store;
  return absl::InvalidArgumentError(fmt::format(
      "routes need {} bytes in each KV block and the layout has {}", needed, kv.layout.side_bytes));
}

std::byte* RouteStore::row(int32_t block, int32_t slot) const {
  return kv_.data + size_t(block) * kv_.layout.block_stride() + kv_.layout.side_offset() +
         size_t(slot) * row_bytes_;
}

void RouteStore::store(int32_t block, int32_t slot, const int32_t* ids) {
  std::byte* const out = row(block, slot);
  switch (facts_.dtype()) {
    case DType::kInt8:
      return write_row<int8_t>(places_, facts_.top_k, ids, out);
    case DType::kInt16:
      return write_row<int16_t>(places_, facts_.top_k, ids, out);
    default:
      return write_row<int32_t>(places_, facts_.top_k, ids, out);
  }
}

void RouteStore::append(int32_t block, int32_t slot, int32_t rows, RouteSpan* span) const {
  const std::byte* const first = row(block, slot);
  span->ids.insert(span->ids.end(), first, first + size_t(rows) * row_bytes_);
}

}  // namespace rlgen::engine
