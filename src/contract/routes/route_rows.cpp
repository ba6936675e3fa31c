#include "contract/routes/route_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "contract/routes/routed_experts.h"

namespace rlgen {
namespace {

Status check_delivered(const TensorView& delivered, const RouteLayout& layout, int64_t expected) {
  if (delivered.shape.rank() != 3) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts has shape {}; it must be [tokens, layers, top-k]",
                    delivered.shape.to_string()));
  }
  const int64_t rows = delivered.shape[0];
  if (layout.must_be_complete && rows > expected + 1) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts has {} rows for {} tokens, of which {} came from the prefix "
                    "cache: {} are expected, and one more for the last token is tolerated",
                    rows, layout.valid_length, layout.cached_tokens, expected));
  }
  return absl::OkStatus();
}

Status check_route_ids(std::span<const int64_t> ids, int64_t top_k) {
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [](int64_t id) { return id < kRoutedExpertsMissingRouteSentinel; });
  if (bad != ids.end()) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts holds {}; an expert is 0 or more, and -1 no route", *bad));
  }
  for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(top_k)) {
    const auto row = ids.subspan(at, static_cast<size_t>(top_k));
    const auto missing = std::count(row.begin(), row.end(), kRoutedExpertsMissingRouteSentinel);
    if (missing == 0 || missing == top_k) continue;
    return absl::InvalidArgumentError(
        fmt::format("routed_experts row {} (counted over tokens and layers) has {} of {} slots at "
                    "-1; a route is there or not",
                    at / static_cast<size_t>(top_k), missing, top_k));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<HostTensor> lay_out_routes(const TensorView& delivered, const RouteLayout& layout,
                                    RouteCounts* counts) {
  const int64_t expected =
      std::min(std::max<int64_t>(layout.valid_length - 1, 0), layout.padded_length);
  RLGEN_RETURN_IF_ERROR(check_delivered(delivered, layout, expected));
  RLGEN_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, read_integers(delivered));
  RLGEN_RETURN_IF_ERROR(check_route_ids(ids, delivered.shape[2]));
  const int64_t actual = delivered.shape[0];
  *counts = {.expected = expected,
             .actual = actual,
             .missing = std::max<int64_t>(expected - actual, 0),
             .surplus = std::max<int64_t>(actual - (expected + 1), 0)};

  const int64_t layers = delivered.shape[1];
  const int64_t top_k = delivered.shape[2];
  const int64_t row = layers * top_k;
  std::vector<int64_t> values(static_cast<size_t>(layout.padded_length * row),
                              kRoutedExpertsMissingRouteSentinel);
  std::copy_n(ids.begin(), std::min(expected, actual) * row, values.begin());
  for (int64_t i = expected * row; i < layout.padded_length * row; ++i) {
    values[static_cast<size_t>(i)] = i % top_k;
  }
  HostTensor routes(layout.dtype, Shape{layout.padded_length, layers, top_k});
  const Status written = write_integers(values, &routes);
  if (!written.ok()) {
    return annotate(written, "routed_experts, whose type follows the number of experts found");
  }
  return routes;
}

}  // namespace rlgen
