#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace rlgen {

// How routes look that a shard records. All 0: it records none.
struct RouteFacts {
  int32_t layers = 0;  // of the layer axis
  int32_t top_k = 0;   // experts that one layer takes for one token
  int32_t experts = 0;

  bool recorded() const { return layers > 0; }
  // The narrowest type that carries them.
  DType dtype() const;

  bool operator==(const RouteFacts&) const = default;
};

// The experts that rows of one sequence used. Row p is the token at position p, counted over prompt
// and output, on its way through the model; the last token of a sequence never goes there.
struct RouteSpan {
  int32_t first = 0;   // position of the first row
  int32_t layers = 0;  // 0: no routes at all
  int32_t top_k = 0;
  DType dtype = DType::kInt8;  // int8, int16 or int32
  std::vector<std::byte> ids;  // [rows, layers, top_k], slots in the router's order

  bool present() const { return layers > 0; }
  size_t row_bytes() const { return static_cast<size_t>(layers * top_k * size_of(dtype)); }
  int32_t rows() const { return present() ? static_cast<int32_t>(ids.size() / row_bytes()) : 0; }
  int32_t end() const { return first + rows(); }
  // [rows, layers, top_k]; the span keeps the memory. Not for a span that is not present().
  TensorView view() const;

  bool operator==(const RouteSpan&) const = default;
};

// A span without rows that begins at `first`; not present() where none are recorded.
RouteSpan empty_route_span(const RouteFacts& facts, int32_t first);

// Appends the rows of `more`, if it has any, to `*to`, or takes them over where `*to` is not
// present().
// kInvalidArgument for another type, other layers or top-k, and for rows that do not follow.
Status append_routes(const RouteSpan& more, RouteSpan* to);

// kInvalidArgument names the first id, with its row and layer, that is neither -1 nor one of the
// experts 0 .. experts - 1.
Status check_experts(const RouteSpan& span, int32_t experts);

}  // namespace rlgen
