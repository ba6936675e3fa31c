#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"

namespace rlgen {

// What the column of captured media holds: the type of a pixel and the pixels of a patch's side.
struct MediaColumnSpec {
  DType pixel_dtype = DType::kFloat32;
  int32_t patch_size = 0;

  bool operator==(const MediaColumnSpec&) const = default;
};

// The one spec that those who capture media report; nothing where nobody reports one.
// kFailedPrecondition names two specs that differ.
StatusOr<std::optional<MediaColumnSpec>> agreed_media_columns(
    std::span<const std::optional<MediaColumnSpec>> reported);

}  // namespace rlgen
