#include "kernels/packing.h"

#include <cstring>

#include "kernels/shared.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

constexpr int64_t kLanes = 16;

// Calls move(source element, packed element) for row `row` of a matrix of T.
template <typename T, typename Packed, typename Move>
void for_each_element(Packed* packed, int64_t k, int64_t row, Move move) {
  constexpr int64_t kDepth = sizeof(T) == 2 ? 2 : 1;
  const int64_t groups = (k + kDepth - 1) / kDepth;
  Packed* at = packed + (row / kLanes) * groups * kDepth * kLanes + (row % kLanes) * kDepth;
  for (int64_t c = 0; c < k; c += kDepth, at += kDepth * kLanes) {
    for (int64_t half = 0; half < kDepth && c + half < k; ++half) move(c + half, at + half);
  }
}

template <typename T>
void pack_rows_of(T* packed, int64_t k, int64_t row, int64_t rows, const std::byte* source) {
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* from = source + r * k * int64_t(sizeof(T));
    for_each_element<T>(packed, k, row + r, [&](int64_t c, T* to) {
      std::memcpy(to, from + c * int64_t(sizeof(T)), sizeof(T));
    });
  }
}

template <typename T>
void unpack_rows_of(const T* packed, int64_t k, int64_t row, int64_t rows, std::byte* destination) {
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* to = destination + r * k * int64_t(sizeof(T));
    for_each_element<T>(packed, k, row + r, [&](int64_t c, const T* from) {
      std::memcpy(to + c * int64_t(sizeof(T)), from, sizeof(T));
    });
  }
}

}  // namespace

size_t packed_bytes(DType dtype, int64_t n, int64_t k) {
  const int64_t rows = (n + kLanes - 1) / kLanes * kLanes;
  const int64_t columns = size_of(dtype) == 2 ? (k + 1) / 2 * 2 : k;
  return size_t(rows) * size_t(columns) * size_t(size_of(dtype));
}

void pack_rows(std::byte* packed, DType dtype, int64_t /*n*/, int64_t k, int64_t row, int64_t rows,
               const std::byte* source) {
  if (size_of(dtype) == 2) {
    pack_rows_of(reinterpret_cast<uint16_t*>(packed), k, row, rows, source);
  } else {
    pack_rows_of(reinterpret_cast<uint32_t*>(packed), k, row, rows, source);
  }
}

void unpack_rows(const PackedMatrix& matrix, int64_t row, int64_t rows, std::byte* destination) {
  if (size_of(matrix.dtype) == 2) {
    unpack_rows_of(reinterpret_cast<const uint16_t*>(matrix.data), matrix.k, row, rows,
                   destination);
  } else {
    unpack_rows_of(reinterpret_cast<const uint32_t*>(matrix.data), matrix.k, row, rows,
                   destination);
  }
}

namespace shared {

void gather_row(const PackedMatrix& w, int64_t row, float* out) {
  if (w.dtype == DType::kFloat32) {
    for_each_element<float>(reinterpret_cast<const float*>(w.data), w.k, row,
                            [&](int64_t c, const float* from) { out[c] = *from; });
    return;
  }
  const bool is_bf16 = w.dtype == DType::kBFloat16;
  for_each_element<uint16_t>(reinterpret_cast<const uint16_t*>(w.data), w.k, row,
                             [&](int64_t c, const uint16_t* from) {
                               out[c] = is_bf16 ? float_from_bf16(*from) : float_from_f16(*from);
                             });
}

}  // namespace shared
}  // namespace rlgen::kernels
