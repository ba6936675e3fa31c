#include "contract/routes/routed_experts.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "contract/json_value.h"

namespace rlgen {
namespace {

using nlohmann::json;

constexpr std::string_view kEnvelopeMagic = "nrlre1";

std::optional<int64_t> experts_of(const json& object) {
  if (!object.is_object()) return std::nullopt;
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts"}) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_integer()) continue;
    int64_t count = 0;
    if (read_json(JsonField{key, *found}, &count).ok() && count > 0) return count;
  }
  return std::nullopt;
}

std::optional<DType> carrier(std::string_view name) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32}) {
    if (torch_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

Status malformed(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("routed_experts is malformed: {}; it must be "
                  "\"nrlre1:<int8, int16 or int32>:<S>x<L>x<K>:<base64>\"",
                  what));
}

StatusOr<Shape> parse_envelope_shape(std::string_view text) {
  std::vector<int64_t> dims;
  for (const absl::string_view part : absl::StrSplit(to_absl(text), 'x')) {
    int64_t dim = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), dim);
    const bool number = failure == std::errc() && end == part.data() + part.size();
    if (!number || dim < 0) return malformed(fmt::format("shape \"{}\"", text));
    dims.push_back(dim);
  }
  if (dims.size() != 3) return malformed(fmt::format("shape \"{}\"", text));
  return Shape::make(dims);
}

// Appends what `list` holds, `depth` lists deep, and checks that all lists of one depth are equally
// long.
Status flatten(const json& list, size_t depth, std::array<int64_t, 3>* dims,
               std::vector<int64_t>* values) {
  if (depth == dims->size()) {
    int64_t value = 0;
    RLGEN_RETURN_IF_ERROR(read_json(JsonField{"routed_experts", list}, &value));
    values->push_back(value);
    return absl::OkStatus();
  }
  if (!list.is_array()) return malformed("a nested list is not 3 deep");
  const auto size = static_cast<int64_t>(list.size());
  if ((*dims)[depth] < 0) (*dims)[depth] = size;
  if ((*dims)[depth] != size) return malformed("the lists of a nested list differ in length");
  for (const json& part : list) {
    RLGEN_RETURN_IF_ERROR(flatten(part, depth + 1, dims, values));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<std::string_view> routed_experts_dtype_name(DType dtype) {
  const std::string_view name = torch_name(dtype);
  if (!carrier(name)) return std::nullopt;
  return name;
}

std::optional<int64_t> get_num_routed_experts(const json& hf_config) {
  if (const auto count = experts_of(hf_config)) return count;
  if (!hf_config.is_object() || !hf_config.contains("text_config")) return std::nullopt;
  return experts_of(hf_config["text_config"]);
}

DType resolve_routed_experts_dtype(std::optional<int64_t> num_experts) {
  if (!num_experts) return kRoutedExpertsFallbackDtype;
  if (*num_experts <= 128) return DType::kInt8;
  return *num_experts <= 32768 ? DType::kInt16 : DType::kInt32;
}

std::string resolve_routed_experts_dtype_name_for_model(const std::string& model_name) {
  DType dtype = kRoutedExpertsFallbackDtype;
  if (const auto text = read_file(model_name + "/config.json"); text.ok()) {
    const json config = json::parse(*text, nullptr, false);
    if (config.is_object()) dtype = resolve_routed_experts_dtype(get_num_routed_experts(config));
  }
  return std::string(torch_name(dtype));
}

StatusOr<std::string> encode_routed_experts(const TensorView& routes) {
  const auto name = routed_experts_dtype_name(routes.dtype);
  if (!name || routes.shape.rank() != 3) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts is {} of shape {}; it must be [tokens, layers, top-k] of int8, "
                    "int16 or int32",
                    torch_name(routes.dtype), routes.shape.to_string()));
  }
  const HostTensor dense = HostTensor::copy_of(routes);
  const std::string_view bytes(reinterpret_cast<const char*>(dense.bytes().data()),
                               dense.bytes().size());
  return fmt::format("{}:{}:{}x{}x{}:{}", kEnvelopeMagic, *name, routes.shape[0], routes.shape[1],
                     routes.shape[2], absl::Base64Escape(to_absl(bytes)));
}

StatusOr<RouteEnvelope> open_route_envelope(std::string_view envelope) {
  const std::vector<absl::string_view> parts = absl::StrSplit(to_absl(envelope), ':');
  if (parts.size() != 4 || to_std(parts[0]) != kEnvelopeMagic) {
    return malformed(fmt::format("it begins with \"{}\"", envelope.substr(0, 20)));
  }
  const auto dtype = carrier(to_std(parts[1]));
  if (!dtype) return malformed(fmt::format("type \"{}\"", to_std(parts[1])));
  RLGEN_ASSIGN_OR_RETURN(const Shape shape, parse_envelope_shape(to_std(parts[2])));
  return RouteEnvelope{.dtype = *dtype, .shape = shape, .base64 = to_std(parts[3])};
}

StatusOr<HostTensor> decode_routed_experts(std::string_view envelope) {
  RLGEN_ASSIGN_OR_RETURN(const RouteEnvelope open, open_route_envelope(envelope));
  RLGEN_ASSIGN_OR_RETURN(const int64_t wanted, num_bytes(open.shape, open.dtype));
  std::string bytes;
  if (!absl::Base64Unescape(to_absl(open.base64), &bytes)) {
    return malformed("the data are no base64");
  }
  if (static_cast<int64_t>(bytes.size()) != wanted) {
    return malformed(fmt::format("shape {} of {} has {} bytes, the data have {}",
                                 open.shape.to_string(), torch_name(open.dtype), wanted,
                                 bytes.size()));
  }
  HostTensor routes(open.dtype, open.shape);
  if (!bytes.empty()) std::memcpy(routes.bytes().data(), bytes.data(), bytes.size());
  return routes;
}

StatusOr<HostTensor> decode_routed_experts_json(const json& envelope_or_list) {
  if (envelope_or_list.is_string()) {
    return decode_routed_experts(std::string_view(envelope_or_list.get_ref<const std::string&>()));
  }
  std::array<int64_t, 3> dims{-1, -1, -1};
  std::vector<int64_t> values;
  RLGEN_RETURN_IF_ERROR(flatten(envelope_or_list, 0, &dims, &values));
  for (int64_t& dim : dims) dim = dim < 0 ? 0 : dim;
  RLGEN_ASSIGN_OR_RETURN(const Shape shape, Shape::make(dims));
  HostTensor routes(kRoutedExpertsFallbackDtype, shape);
  if (!write_integers(values, &routes).ok()) routes = HostTensor(DType::kInt32, shape);
  RLGEN_RETURN_IF_ERROR(annotate(write_integers(values, &routes), "routed_experts"));
  return routes;
}

}  // namespace rlgen
