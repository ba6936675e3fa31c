#include "contract/routes/route_span.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/routes/routed_experts.h"

namespace rlgen {
namespace {

template <typename Id>
Status check_ids_of(const RouteSpan& span, int32_t experts) {
  const auto ids = span.view();
  const Id* const first = ids.as<const Id>();
  const int64_t count = ids.shape.num_elements();
  const Id* const bad = std::find_if(first, first + count, [experts](Id id) {
    return id < kRoutedExpertsMissingRouteSentinel || static_cast<int64_t>(id) >= experts;
  });
  if (bad == first + count) return absl::OkStatus();
  const int64_t row = (bad - first) / span.top_k;
  return absl::InvalidArgumentError(fmt::format(
      "routed_experts of token {}, layer {} name expert {}; experts go from 0 to {}",
      span.first + row / span.layers, row % span.layers, static_cast<int64_t>(*bad), experts - 1));
}

}  // namespace

DType RouteFacts::dtype() const { return resolve_routed_experts_dtype(experts); }

TensorView RouteSpan::view() const {
  return dense_view(ids.data(), dtype, Shape{rows(), layers, top_k});
}

RouteSpan empty_route_span(const RouteFacts& facts, int32_t first) {
  if (!facts.recorded()) return {};
  return {.first = first,
          .layers = facts.layers,
          .top_k = facts.top_k,
          .dtype = facts.dtype(),
          .ids = {}};
}

Status append_routes(const RouteSpan& more, RouteSpan* to) {
  if (!more.present()) return absl::OkStatus();
  if (!to->present()) {
    *to = more;
    return absl::OkStatus();
  }
  if (more.dtype != to->dtype || more.layers != to->layers || more.top_k != to->top_k) {
    return absl::InvalidArgumentError(fmt::format(
        "routed_experts come as {} of {} layers and top-{}, before as {} of {} layers and top-{}",
        torch_name(more.dtype), more.layers, more.top_k, torch_name(to->dtype), to->layers,
        to->top_k));
  }
  if (more.first != to->end()) {
    return absl::InvalidArgumentError(fmt::format(
        "routed_experts come from token {} on, token {} is next", more.first, to->end()));
  }
  to->ids.insert(to->ids.end(), more.ids.begin(), more.ids.end());
  return absl::OkStatus();
}

Status check_experts(const RouteSpan& span, int32_t experts) {
  if (!span.present()) return absl::OkStatus();
  switch (span.dtype) {
    case DType::kInt8:
      return check_ids_of<int8_t>(span, experts);
    case DType::kInt16:
      return check_ids_of<int16_t>(span, experts);
    case DType::kInt32:
      return check_ids_of<int32_t>(span, experts);
    default:
      return absl::InvalidArgumentError(fmt::format(
          "routed_experts are {}; they must be int8, int16 or int32", torch_name(span.dtype)));
  }
}

}  // namespace rlgen
