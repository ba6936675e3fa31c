#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "contract/host_tensor.h"

namespace rlgen {

// Routes that a request brings along, [tokens, layers, top-k] of int8, int16 or int32: row p is for
// the token at position p. Where a token has no row, or a row of one layer that is all -1, the
// router decides. Shared by the samples of a prompt.
using GivenRoutes = std::shared_ptr<const HostTensor>;

// What given routes are held against.
struct GivenRouteRules {
  int32_t top_k = 0;
  int32_t experts = 0;
  // The layer axis has one of these sizes: the layers with experts alone, or all of them.
  int32_t expert_layers = 0;
  int32_t layers = 0;
  // Rows that there may be.
  int64_t least_rows = 0;
  int64_t most_rows = 0;
};

// kInvalidArgument with what is wrong: another rank or type, another number of rows, layers or
// slots; and, with token and layer, a row that names an expert twice or one that there is not, or
// holds -1 beside experts.
Status check_given_routes(const HostTensor& routes, const GivenRouteRules& rules);

// A name for what the routes say, whatever type carries the ids: 32 hexadecimal digits, XXH3-128 of
// the three dimensions as int64 and the ids as int32, little endian. The types are the three.
std::string given_routes_digest(const HostTensor& routes);

// `routes`, of any integer type, in the narrowest of the three that holds them. kInvalidArgument
// for another type, and for an id beyond 32 bits.
StatusOr<HostTensor> narrow_routes(const TensorView& routes);

}  // namespace rlgen
