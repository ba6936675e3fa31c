#include "cli/diff/point.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <tuple>

#include "models/decoder.h"

namespace rlgen::cli {
namespace {

using models::ForwardPoint;

constexpr std::array<std::string_view, 8> kPointNames = {"embedding",  "input_norm",     "qkv",
                                                         "attention",  "post_attention", "output",
                                                         "final_norm", "logits"};
constexpr std::string_view kLayers = "layers.";

std::string_view point_name(ForwardPoint kind) { return kPointNames.at(static_cast<size_t>(kind)); }

std::optional<ForwardPoint> parse_kind(std::string_view name) {
  for (size_t i = 0; i < kPointNames.size(); ++i) {
    if (kPointNames.at(i) == name) return static_cast<ForwardPoint>(i);
  }
  return std::nullopt;
}

// Before, in and after the layers.
int part(const Point& point) {
  if (models::is_layer_point(point.kind)) return 1;
  return point.kind == ForwardPoint::kEmbedding ? 0 : 2;
}

}  // namespace

std::strong_ordering Point::operator<=>(const Point& other) const {
  return std::tuple(part(*this), layer, kind) <=> std::tuple(part(other), other.layer, other.kind);
}

std::string point_name(const Point& point) {
  if (!models::is_layer_point(point.kind)) return std::string(point_name(point.kind));
  return fmt::format("{}{}.{}", kLayers, point.layer, point_name(point.kind));
}

std::optional<Point> parse_point(std::string_view name) {
  Point point;
  const bool in_layer = name.starts_with(kLayers);
  if (in_layer) {
    name.remove_prefix(kLayers.size());
    const auto read = std::from_chars(name.data(), name.data() + name.size(), point.layer);
    const auto digits = static_cast<size_t>(read.ptr - name.data());
    if (read.ec != std::errc() || point.layer < 0 || digits == name.size()) return std::nullopt;
    if (name[digits] != '.') return std::nullopt;
    name.remove_prefix(digits + 1);
  }
  const auto kind = parse_kind(name);
  if (!kind || models::is_layer_point(*kind) != in_layer) return std::nullopt;
  point.kind = *kind;
  return point;
}

std::string element_name(const Point& point, int64_t index, const models::DecoderSpec& spec) {
  if (point.kind == ForwardPoint::kLogits) return fmt::format("token {}", index);
  if (point.kind != ForwardPoint::kQkv && point.kind != ForwardPoint::kAttention) return "";
  const bool attended = point.kind == ForwardPoint::kAttention;
  const int64_t size = attended ? models::attended_size(spec) / spec.heads : int64_t{spec.head_dim};
  int64_t head = index / size;
  std::string_view what = "query";
  if (head >= spec.heads) {
    head -= spec.heads;
    what = head < spec.kv_heads ? "key" : "value";
    head %= spec.kv_heads;
  }
  return fmt::format("{} head {}, element {}", what, head, index % size);
}

}  // namespace rlgen::cli
