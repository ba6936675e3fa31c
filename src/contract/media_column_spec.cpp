#include "contract/media_column_spec.h"

#include <fmt/format.h>

namespace rlgen {

StatusOr<std::optional<MediaColumnSpec>> agreed_media_columns(
    std::span<const std::optional<MediaColumnSpec>> reported) {
  std::optional<MediaColumnSpec> agreed;
  for (const auto& spec : reported) {
    if (!spec || spec == agreed) continue;
    if (agreed) {
      return absl::FailedPreconditionError(fmt::format(
          "workers pinned different media column specs: {} with patches of {} and {} with patches "
          "of {}",
          torch_name(agreed->pixel_dtype), agreed->patch_size, torch_name(spec->pixel_dtype),
          spec->patch_size));
    }
    agreed = spec;
  }
  return agreed;
}

}  // namespace rlgen
