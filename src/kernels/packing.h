#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rlgen::kernels {

// A weight matrix W [n, k] (n output features, k input features) packed for the GEMM.
//   2-byte types: [n/16][k/2][16][2], element (r, c) at tile r/16, pair c/2, lane r%16, half c%2
//   float32:      [n/16][k][16],      element (r, c) at tile r/16, row c, lane r%16
// n is rounded up to 16 and k (of 2-byte types) to 2; the padding is zero. The bytes belong to a
// weight region and are 64-byte aligned. n and k are at least 1.
struct PackedMatrix {
  const std::byte* data = nullptr;
  DType dtype = DType::kBFloat16;  // kBFloat16, kFloat16 or kFloat32
  int64_t n = 0;
  int64_t k = 0;
};

// Bytes of the packed form, a multiple of 64.
size_t packed_bytes(DType dtype, int64_t n, int64_t k);

// Matrices of one type and shape, packed one after the other.
struct PackedStack {
  PackedMatrix first;
  int64_t count = 1;

  PackedMatrix at(int64_t index) const {
    PackedMatrix matrix = first;
    matrix.data += size_t(index) * packed_bytes(first.dtype, first.n, first.k);
    return matrix;
  }
};

// Packs rows [row, row + rows) of W from `source` (row-major, k elements a row, same dtype) into
// `packed`, which holds the whole matrix. Other rows keep their bytes, so that several threads may
// pack different rows of one tile. The padding is left as it is: regions start zeroed.
void pack_rows(std::byte* packed, DType dtype, int64_t n, int64_t k, int64_t row, int64_t rows,
               const std::byte* source);

// Whether rows [row, row + rows) of two packed matrices of one type and k differ in their bytes.
bool packed_rows_differ(const std::byte* a, const std::byte* b, DType dtype, int64_t k, int64_t row,
                        int64_t rows);

// The inverse: rows [row, row + rows) as they came.
void unpack_rows(const PackedMatrix& matrix, int64_t row, int64_t rows, std::byte* destination);

// Packs columns [column, column + columns) of W from `source`, which holds W transposed (n elements
// a column, one after the other, same dtype). Other columns keep their bytes and are not touched,
// so that several threads may pack different ones, also two of one pair. The padding is left as it
// is.
void pack_columns(std::byte* packed, DType dtype, int64_t n, int64_t k, int64_t column,
                  int64_t columns, const std::byte* source);

// The inverse: columns [column, column + columns) as they came.
void unpack_columns(const PackedMatrix& matrix, int64_t column, int64_t columns,
                    std::byte* destination);

// Whether columns [column, column + columns) differ from those of another matrix of the same type
// and shape, packed at `other`.
bool packed_columns_differ(const PackedMatrix& matrix, const std::byte* other, int64_t column,
                           int64_t columns);

}  // namespace rlgen::kernels
