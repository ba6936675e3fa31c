#include "contract/routes/given_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/hash.h"
#include "contract/routes/routed_experts.h"

namespace rlgen {
namespace {

Status check_given_shape(const HostTensor& routes, const GivenRouteRules& rules) {
  const Shape& shape = routes.shape();
  if (shape.rank() != 3) {
    return absl::InvalidArgumentError(fmt::format(
        "routed_experts has shape {}; it must be [tokens, layers, top-k]", shape.to_string()));
  }
  if (shape[0] < rules.least_rows || shape[0] > rules.most_rows) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts has {} rows; this request takes {} to {}, one a token",
                    shape[0], rules.least_rows, rules.most_rows));
  }
  if (shape[1] != rules.expert_layers && shape[1] != rules.layers) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts has {} layers; the model has {} with experts, of {}", shape[1],
                    rules.expert_layers, rules.layers));
  }
  if (shape[2] == rules.top_k) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("routed_experts has {} slots a layer; the model takes {} experts for a token",
                  shape[2], rules.top_k));
}

// Why the slots of one row and layer are no route; empty where they are one.
template <typename Id>
std::string fault_of(std::span<const Id> slots, int32_t experts) {
  const auto missing = std::ranges::count(slots, Id{kRoutedExpertsMissingRouteSentinel});
  if (missing == static_cast<int64_t>(slots.size())) return {};
  if (missing > 0) {
    return fmt::format("has {} of {} slots at -1; all are, or none", missing, slots.size());
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto id = static_cast<int64_t>(slots[i]);
    if (id < 0 || id >= experts) {
      return fmt::format("names expert {}; experts go from 0 to {}", id, experts - 1);
    }
    if (std::ranges::count(slots.first(i), slots[i]) > 0) {
      return fmt::format("names expert {} twice", id);
    }
  }
  return {};
}

template <typename Id>
Status check_given_ids(const HostTensor& routes, int32_t experts) {
  const auto layers = static_cast<size_t>(routes.shape()[1]);
  const auto top_k = static_cast<size_t>(routes.shape()[2]);
  const std::span<const Id> ids(routes.as<Id>(),
                                static_cast<size_t>(routes.shape().num_elements()));
  for (size_t row = 0; row * top_k < ids.size(); ++row) {
    const std::string fault = fault_of(ids.subspan(row * top_k, top_k), experts);
    if (fault.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("routed_experts of token {}, layer {} {}", row / layers, row % layers, fault));
  }
  return absl::OkStatus();
}

template <typename Id>
void add_ids(const HostTensor& routes, DigestStream* stream) {
  const std::span<const Id> ids(routes.as<Id>(),
                                static_cast<size_t>(routes.shape().num_elements()));
  std::array<int32_t, 4096> part{};
  for (size_t at = 0; at < ids.size(); at += part.size()) {
    const size_t count = std::min(part.size(), ids.size() - at);
    std::copy_n(ids.begin() + static_cast<ptrdiff_t>(at), count, part.begin());
    stream->update(std::as_bytes(std::span(part).first(count)));
  }
}

}  // namespace

std::string given_routes_digest(const HostTensor& routes) {
  DigestStream stream;
  for (int axis = 0; axis < routes.shape().rank(); ++axis) {
    const int64_t size = routes.shape()[axis];
    stream.update(std::as_bytes(std::span(&size, 1)));
  }
  switch (routes.dtype()) {
    case DType::kInt8:
      add_ids<int8_t>(routes, &stream);
      break;
    case DType::kInt16:
      add_ids<int16_t>(routes, &stream);
      break;
    default:
      add_ids<int32_t>(routes, &stream);
  }
  return stream.digest().hex();
}

Status check_given_routes(const HostTensor& routes, const GivenRouteRules& rules) {
  RLGEN_RETURN_IF_ERROR(check_given_shape(routes, rules));
  switch (routes.dtype()) {
    case DType::kInt8:
      return check_given_ids<int8_t>(routes, rules.experts);
    case DType::kInt16:
      return check_given_ids<int16_t>(routes, rules.experts);
    case DType::kInt32:
      return check_given_ids<int32_t>(routes, rules.experts);
    default:
      return absl::InvalidArgumentError(fmt::format(
          "routed_experts is {}; it must be int8, int16 or int32", torch_name(routes.dtype())));
  }
}

StatusOr<HostTensor> narrow_routes(const TensorView& routes) {
  if (routed_experts_dtype_name(routes.dtype)) return HostTensor::copy_of(routes);
  const auto ids = read_integers(routes);
  if (!ids.ok()) return annotate(ids.status(), "routed_experts");
  constexpr int64_t kBeyond = int64_t{1} << 31;  // no id: refused where it is written
  const int64_t most = ids->empty() ? 0 : *std::ranges::max_element(*ids);
  HostTensor narrow(resolve_routed_experts_dtype(std::min(most, kBeyond) + 1), routes.shape);
  RLGEN_RETURN_IF_ERROR(annotate(write_integers(*ids, &narrow), "routed_experts"));
  return narrow;
}

}  // namespace rlgen
