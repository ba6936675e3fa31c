#include <algorithm>
#include <cstring>

#include "kernels/packing.h"

// Packed matrices written and read by columns, for tensors that hold them transposed.
namespace rlgen::kernels {
namespace {

constexpr int64_t kTileRows = 16;

// Where `width` columns stand in the rows of one tile: element (row, column) + (r, c) lies at
// `at + r * depth + c`, counted in elements, with depth 2 for 2-byte types and 1 for float32.
struct ColumnRun {
  int64_t at = 0;
  int64_t row = 0;
  int64_t rows = 0;    // up to 16
  int64_t column = 0;  // counted from the first of the call
  int64_t width = 1;   // 2: a whole pair
};

// Calls f(run) for columns [column, column + columns), tile after tile: what a tile takes is
// written one line after the other, and the part of the source that it comes from is read once.
template <int64_t kDepth, typename F>
void for_each_run(int64_t n, int64_t k, int64_t column, int64_t columns, F f) {
  const int64_t tile_elements = (k + kDepth - 1) / kDepth * kDepth * kTileRows;
  for (int64_t row = 0; row < n; row += kTileRows) {
    const int64_t tile = row / kTileRows * tile_elements;
    for (int64_t done = 0; done < columns;) {
      const int64_t half = (column + done) % kDepth;
      const int64_t line = (column + done) / kDepth;
      const int64_t width = std::min(kDepth - half, columns - done);
      f(ColumnRun{.at = tile + line * kDepth * kTileRows + half,
                  .row = row,
                  .rows = std::min(kTileRows, n - row),
                  .column = done,
                  .width = width});
      done += width;
    }
  }
}

// Calls move(element of the packed form, element of the columns) for every element of a run.
template <typename T, int64_t kDepth, typename Packed, typename Columns, typename Move>
void for_each_of(const ColumnRun& run, int64_t n, Packed* packed, Columns* columns, Move move) {
  constexpr auto kBytes = int64_t(sizeof(T));
  Packed* const at = packed + run.at * kBytes;
  Columns* const first = columns + (run.column * n + run.row) * kBytes;
  for (int64_t r = 0; r < run.rows; ++r) {
    for (int64_t c = 0; c < run.width; ++c) {
      move(at + (r * kDepth + c) * kBytes, first + (c * n + r) * kBytes);
    }
  }
}

template <typename T>
void pack_columns_of(std::byte* packed, int64_t n, int64_t k, int64_t column, int64_t columns,
                     const std::byte* source) {
  constexpr int64_t kDepth = sizeof(T) == 2 ? 2 : 1;
  for_each_run<kDepth>(n, k, column, columns, [&](const ColumnRun& run) {
    for_each_of<T, kDepth>(run, n, packed, source, [](std::byte* to, const std::byte* from) {
      std::memcpy(to, from, sizeof(T));
    });
  });
}

template <typename T>
void unpack_columns_of(const PackedMatrix& matrix, int64_t column, int64_t columns,
                       std::byte* destination) {
  constexpr int64_t kDepth = sizeof(T) == 2 ? 2 : 1;
  for_each_run<kDepth>(matrix.n, matrix.k, column, columns, [&](const ColumnRun& run) {
    for_each_of<T, kDepth>(
        run, matrix.n, matrix.data, destination,
        [](const std::byte* from, std::byte* to) { std::memcpy(to, from, sizeof(T)); });
  });
}

// A run as wide as a line is compared as one; of half a pair, whose other half may be in another
// thread's hands, each element alone.
template <typename T>
bool columns_of_differ(const PackedMatrix& matrix, const std::byte* other, int64_t column,
                       int64_t columns) {
  constexpr int64_t kDepth = sizeof(T) == 2 ? 2 : 1;
  bool differ = false;
  for_each_run<kDepth>(matrix.n, matrix.k, column, columns, [&](const ColumnRun& run) {
    const bool whole = run.width == kDepth;
    const int64_t step = whole ? run.rows : 1;
    for (int64_t r = 0; !differ && r < run.rows; r += step) {
      const size_t at = size_t(run.at + r * kDepth) * sizeof(T);
      const size_t bytes = size_t(whole ? run.rows * kDepth : 1) * sizeof(T);
      differ = std::memcmp(matrix.data + at, other + at, bytes) != 0;
    }
  });
  return differ;
}

}  // namespace

void pack_columns(std::byte* packed, DType dtype, int64_t n, int64_t k, int64_t column,
                  int64_t columns, const std::byte* source) {
  if (size_of(dtype) == 2) {
    pack_columns_of<uint16_t>(packed, n, k, column, columns, source);
  } else {
    pack_columns_of<uint32_t>(packed, n, k, column, columns, source);
  }
}

void unpack_columns(const PackedMatrix& matrix, int64_t column, int64_t columns,
                    std::byte* destination) {
  if (size_of(matrix.dtype) == 2) {
    unpack_columns_of<uint16_t>(matrix, column, columns, destination);
  } else {
    unpack_columns_of<uint32_t>(matrix, column, columns, destination);
  }
}

bool packed_columns_differ(const PackedMatrix& matrix, const std::byte* other, int64_t column,
                           int64_t columns) {
  return size_of(matrix.dtype) == 2 ? columns_of_differ<uint16_t>(matrix, other, column, columns)
                                    : columns_of_differ<uint32_t>(matrix, other, column, columns);
}

}  // namespace rlgen::kernels
