#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/decoder_spec.h"
#include "models/forward_observer.h"

namespace rlgen::cli {

// A named place of a model's forward pass. Smaller is computed earlier.
struct Point {
  models::ForwardPoint kind = models::ForwardPoint::kEmbedding;
  int32_t layer = -1;  // -1 outside the layers

  bool operator==(const Point&) const = default;
  std::strong_ordering operator<=>(const Point& other) const;
};

// "embedding", "layers.N.input_norm", "layers.N.qkv", "layers.N.attention",
// "layers.N.post_attention", "layers.N.output", "final_norm", "logits".
std::string point_name(const Point& point);
std::optional<Point> parse_point(std::string_view name);

// What stands at `index` of a row of that place, beyond its number: "query head 3, element 5",
// "token 17"; empty where there is nothing to add.
std::string element_name(const Point& point, int64_t index, const models::DecoderSpec& spec);

}  // namespace rlgen::cli
