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

// Columns that are taken together down all tiles: so many streams of the source stay in the
// first-level cache with the lines that they fill, and few enough pages are open at a time.
constexpr int64_t kColumnsTogether = 32;

// Calls f(run) for columns [column, column + columns).
template <int64_t kDepth, typename F>
void for_each_run(int64_t n, int64_t k, int64_t column, int64_t columns, F f) {
  const int64_t tile_elements = (k + kDepth - 1) / kDepth * kDepth * kTileRows;
  for (int64_t begin = 0, end = 0; begin < columns; begin = end) {
    const int64_t block = (column + begin) / kColumnsTogether;
    end = std::min(columns, (block + 1) * kColumnsTogether - column);
    for (int64_t row = 0; row < n; row += kTileRows) {
      const int64_t tile = row / kTileRows * tile_elements;
      for (int64_t done = begin; done < end;) {
        const int64_t half = (column + done) % kDepth;
        const int64_t line = (column + done) / kDepth;
        const int64_t width = std::min(kDepth - half, end - done);
        f(ColumnRun{.at = tile + line * kDepth * kTileRows + half,
                    .row = row,
                    .rows = std::min(kTileRows, n - row),
                    .column = done,
                    .width = width});
        done += width;
      }
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

// Eight elements of one column.
using Eight = uint16_t __attribute__((vector_size(16)));

Eight load_eight(const std::byte* from) {
  Eight eight;
  std::memcpy(&eight, from, sizeof eight);
  return eight;
}

// A whole line of a tile: 16 rows of a float32 column, or of two columns of 2-byte elements that
// are `column_bytes` apart. Both ways are five times slower one element at a time.
void pack_line(const std::byte* columns, int64_t column_bytes, int64_t depth, std::byte* line) {
  if (depth == 1) {
    std::memcpy(line, columns, 64);
    return;
  }
  for (int64_t part = 0; part < 2; ++part) {
    const Eight even = load_eight(columns + part * 16);
    const Eight odd = load_eight(columns + column_bytes + part * 16);
    const Eight pairs[2] = {__builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11),
                            __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15)};
    std::memcpy(line + part * 32, pairs, sizeof pairs);
  }
}

void unpack_line(const std::byte* line, int64_t column_bytes, int64_t depth, std::byte* columns) {
  if (depth == 1) {
    std::memcpy(columns, line, 64);
    return;
  }
  for (int64_t part = 0; part < 2; ++part) {
    const Eight low = load_eight(line + part * 32);
    const Eight high = load_eight(line + part * 32 + 16);
    const Eight even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
    const Eight odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
    std::memcpy(columns + part * 16, &even, sizeof even);
    std::memcpy(columns + column_bytes + part * 16, &odd, sizeof odd);
  }
}

template <typename T>
void pack_columns_of(std::byte* packed, int64_t n, int64_t k, int64_t column, int64_t columns,
                     const std::byte* source) {
  constexpr int64_t kDepth = sizeof(T) == 2 ? 2 : 1;
  for_each_run<kDepth>(n, k, column, columns, [&](const ColumnRun& run) {
    if (run.rows == kTileRows && run.width == kDepth) {
      return pack_line(source + (run.column * n + run.row) * int64_t(sizeof(T)),
                       n * int64_t(sizeof(T)), kDepth, packed + run.at * int64_t(sizeof(T)));
    }
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
    if (run.rows == kTileRows && run.width == kDepth) {
      return unpack_line(matrix.data + run.at * int64_t(sizeof(T)), matrix.n * int64_t(sizeof(T)),
                         kDepth,
                         destination + (run.column * matrix.n + run.row) * int64_t(sizeof(T)));
    }
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
