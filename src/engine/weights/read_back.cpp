#include "engine/weights/read_back.h"

#include <absl/functional/function_ref.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/hash.h"

namespace rlgen::engine {
namespace {

using Piece = absl::FunctionRef<void(std::span<const std::byte>)>;

void visit_rows(const models::WeightSet& weights, const models::WeightEntry& entry, DType dtype,
                Piece piece) {
  constexpr int64_t kRowsAtOnce = 64;
  const int64_t rows = entry.rows();
  if (rows == 0) return;
  const int64_t row_bytes = entry.shape.num_elements() / rows * size_of(dtype);
  std::vector<std::byte> buffer(size_t(row_bytes * kRowsAtOnce));
  for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - row);
    models::read_rows(weights.table(), entry, dtype, row, count, weights.region()->data(),
                      buffer.data());
    piece(std::span(buffer).first(size_t(row_bytes * count)));
  }
}

Status visit(const models::WeightSet& weights, std::string_view name, DType dtype, Piece piece) {
  const models::WeightEntry* entry = weights.table().find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(fmt::format("tensor {}: the model has none of that name", name));
  }
  const models::WeightSlot& slot = weights.table().slots[size_t(entry->slot)];
  const bool vector = slot.kind == models::SlotKind::kVector;
  if (vector ? !is_weight_type(dtype) : dtype != slot.dtype) {
    return absl::InvalidArgumentError(fmt::format("tensor {}: asked for as {}, held as {}", name,
                                                  torch_name(dtype), torch_name(slot.dtype)));
  }
  visit_rows(weights, *entry, dtype, piece);
  return absl::OkStatus();
}

// Index of the first element whose exponent is all ones; size where there is none.
template <typename Bits>
size_t first_not_finite(std::span<const std::byte> bytes, Bits exponent) {
  const size_t count = bytes.size() / sizeof(Bits);
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent) return i;
  }
  return count;
}

size_t first_not_finite(std::span<const std::byte> bytes, DType dtype) {
  if (dtype == DType::kFloat32) return first_not_finite<uint32_t>(bytes, 0x7f800000u);
  return first_not_finite<uint16_t>(bytes, dtype == DType::kFloat16 ? 0x7c00u : 0x7f80u);
}

}  // namespace

StatusOr<std::vector<std::byte>> read_tensor(const models::WeightSet& weights,
                                             std::string_view name, DType dtype) {
  std::vector<std::byte> bytes;
  RLGEN_RETURN_IF_ERROR(visit(weights, name, dtype, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }));
  return bytes;
}

StatusOr<std::string> tensor_checksum(const models::WeightSet& weights, std::string_view name,
                                      DType dtype) {
  DigestStream stream;
  RLGEN_RETURN_IF_ERROR(
      visit(weights, name, dtype, [&](std::span<const std::byte> piece) { stream.update(piece); }));
  return stream.digest().hex();
}

StatusOr<std::vector<ManifestEntry>> served_checksums(const models::WeightSet& weights,
                                                      std::vector<ManifestEntry> manifest) {
  for (ManifestEntry& entry : manifest) {
    RLGEN_ASSIGN_OR_RETURN(entry.digest, tensor_checksum(weights, entry.name, entry.dtype));
  }
  return manifest;
}

Status check_finite(const models::WeightSet& weights, std::string_view name) {
  const models::WeightEntry* entry = weights.table().find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(fmt::format("tensor {}: the model has none of that name", name));
  }
  const DType dtype = weights.table().slots[size_t(entry->slot)].dtype;
  size_t done = 0;
  std::optional<size_t> found;
  RLGEN_RETURN_IF_ERROR(visit(weights, name, dtype, [&](std::span<const std::byte> piece) {
    const size_t count = piece.size() / size_t(size_of(dtype));
    const size_t at = first_not_finite(piece, dtype);
    if (!found && at < count) found = done + at;
    done += count;
  }));
  if (!found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("tensor {}: element {} is NaN or infinite", name, *found));
}

}  // namespace rlgen::engine
