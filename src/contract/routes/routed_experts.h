#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "contract/host_tensor.h"
#include "tensor/dtype.h"

namespace rlgen {

// Carries the ids of chosen experts where the number of experts is not known.
inline constexpr DType kRoutedExpertsFallbackDtype = DType::kInt16;

// A row (one token, one layer) with this in every slot: no route was delivered.
inline constexpr int32_t kRoutedExpertsMissingRouteSentinel = -1;

// "int8", "int16" or "int32", the types that may carry routes; nothing for any other.
std::optional<std::string_view> routed_experts_dtype_name(DType dtype);

// Number of routed experts in the configuration of a model (config.json): the first of num_experts,
// n_routed_experts and num_local_experts that is a whole number above 0, of the object itself, then
// of its text_config. Nothing for dense models and whatever else comes.
std::optional<int64_t> get_num_routed_experts(const nlohmann::json& hf_config);

// The narrowest signed type for ids 0 .. num_experts - 1 and the sentinel: int8 up to 128 experts,
// int16 up to 32768, int32 beyond; the fallback where the number is not known.
DType resolve_routed_experts_dtype(std::optional<int64_t> num_experts);

// The name of that type for the checkpoint in folder `model_name`; the fallback's where its
// config.json cannot be read.
std::string resolve_routed_experts_dtype_name_for_model(const std::string& model_name);

// Routes as text: "nrlre1:<dtype>:<S>x<L>x<K>:<base64 of the bytes in C order>". kInvalidArgument
// for another rank than 3 and another type than the three.
StatusOr<std::string> encode_routed_experts(const TensorView& routes);

// What such a text says of its routes, and its base64, which nobody has looked at yet.
// kInvalidArgument says what is malformed.
struct RouteEnvelope {
  DType dtype = DType::kInt8;
  Shape shape;
  std::string_view base64;
};
StatusOr<RouteEnvelope> open_route_envelope(std::string_view envelope);

// The routes of such a text, or of a nested list [S][L][K] (then in the fallback type, or int32
// where an id does not fit it). kInvalidArgument says what is malformed.
StatusOr<HostTensor> decode_routed_experts(std::string_view envelope);
StatusOr<HostTensor> decode_routed_experts_json(const nlohmann::json& envelope_or_list);

}  // namespace rlgen
