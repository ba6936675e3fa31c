#include "engine/routes/route_layers.h"

#include <algorithm>

namespace rlgen::engine {
namespace {

template <typename Id>
void copy_rows(const HostTensor& given, const RouteLayers& layers, int64_t first, int64_t rows,
               int32_t* out) {
  const int64_t axis = given.shape()[1];
  const bool all_layers = axis != layers.expert_layers;
  const int64_t end = std::min(first + rows, given.shape()[0]);
  for (int64_t row = first; row < end; ++row) {
    const Id* const ids = given.as<Id>() + row * axis * layers.top_k;
    for (int64_t layer = 0; layer < axis; ++layer) {
      if (all_layers && layers.place[size_t(layer)] < 0) continue;
      out = std::copy_n(ids + layer * layers.top_k, layers.top_k, out);
    }
  }
}

}  // namespace

RouteLayers route_layers(const models::DecoderSpec& spec) {
  const models::RouteAxis axis = models::route_axis(spec);
  RouteLayers layers{
      .expert_layers = axis.layers, .top_k = axis.top_k, .experts = axis.experts, .place = {}};
  int32_t next = 0;
  for (const models::LayerSpec& layer : spec.layer) {
    layers.place.push_back(layer.sparse ? next++ : -1);
  }
  return layers;
}

void copy_given_rows(const HostTensor& given, const RouteLayers& layers, int64_t first,
                     int64_t rows, int32_t* out) {
  switch (given.dtype()) {
    case DType::kInt8:
      return copy_rows<int8_t>(given, layers, first, rows, out);
    case DType::kInt16:
      return copy_rows<int16_t>(given, layers, first, rows, out);
    default:
      return copy_rows<int32_t>(given, layers, first, rows, out);
  }
}

}  // namespace rlgen::engine
