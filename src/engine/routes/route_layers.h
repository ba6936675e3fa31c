#pragma once

#include <cstdint>
#include <vector>

#include "contract/host_tensor.h"
#include "models/decoder.h"

namespace rlgen::engine {

// Where the rows of the forward pass, which have the layers with experts alone, stand on a layer
// axis of all layers.
struct RouteLayers {
  int32_t expert_layers = 0;
  int32_t top_k = 0;
  int32_t experts = 0;
  std::vector<int32_t> place;  // by layer of the model: among those with experts; -1: it has none

  int32_t row_size() const { return expert_layers * top_k; }  // ids of the forward pass
};

RouteLayers route_layers(const models::DecoderSpec& spec);

// Copies the rows [first, first + rows) of given routes (sound: check_given_routes) to `out`,
// [rows, expert layers, top_k], whichever of the two layer axes they have. Rows that are not given
// stay as they are.
void copy_given_rows(const HostTensor& given, const RouteLayers& layers, int64_t first,
                     int64_t rows, int32_t* out);

}  // namespace rlgen::engine
