#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/weight_sink.h"
#include "models/weights.h"

namespace rlgen::engine {

// The bytes of a tensor of a served set, un-packed, in C order, as `dtype`, the type that the
// checkpoint had. kNotFound for a name that the table does not have, kInvalidArgument when the set
// holds another type (vectors are held as float32 and may be read as any weight type).
StatusOr<std::vector<std::byte>> read_tensor(const models::WeightSet& weights,
                                             std::string_view name, DType dtype);

// Hex XXH3-128 of those bytes.
StatusOr<std::string> tensor_checksum(const models::WeightSet& weights, std::string_view name,
                                      DType dtype);

// Every tensor of `manifest` with the digest of the bytes that are served under its name.
StatusOr<std::vector<ManifestEntry>> served_checksums(const models::WeightSet& weights,
                                                      std::vector<ManifestEntry> manifest);

// kInvalidArgument names the first value of a tensor that is NaN or infinite, and its place.
Status check_finite(const models::WeightSet& weights, std::string_view name);

}  // namespace rlgen::engine
