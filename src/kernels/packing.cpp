#include "kernels/packing.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/shared.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kLineBytes = 64;   // of a cache
constexpr int kIntoSecondCache = 2;  // what __builtin_prefetch calls its locality

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
void pack_single_rows(T* packed, int64_t k, int64_t row, int64_t rows, const std::byte* source) {
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* from = source + r * k * int64_t(sizeof(T));
    for_each_element<T>(packed, k, row + r, [&](int64_t c, T* to) {
      std::memcpy(to, from + c * int64_t(sizeof(T)), sizeof(T));
    });
  }
}

// Four words of four rows, turned into one word of each row four times.
using Words = uint32_t __attribute__((vector_size(16)));

Words load_words(const std::byte* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

// Nobody reads what is packed soon after: it goes past the caches, a whole line after the other,
// so that no line is read before it is written. An update takes a quarter less time.
void store_words(const Words& words, uint32_t* to) {
#if defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), __m128i(words));
#else
  std::memcpy(to, &words, sizeof words);
#endif
}

// Before other threads may read what store_words wrote.
void finish_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Column i of four rows becomes columns[i].
void transpose_four(const std::byte* from, int64_t row_bytes, Words columns[4]) {
  const Words a = load_words(from);
  const Words b = load_words(from + row_bytes);
  const Words c = load_words(from + 2 * row_bytes);
  const Words d = load_words(from + 3 * row_bytes);
  const Words ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Words cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Words ab_end = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Words cd_end = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  columns[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  columns[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  columns[2] = __builtin_shufflevector(ab_end, cd_end, 0, 1, 4, 5);
  columns[3] = __builtin_shufflevector(ab_end, cd_end, 2, 3, 6, 7);
}

// Four words of 16 rows, turned into four whole lines.
void pack_four_lines(const std::byte* from, int64_t row_bytes, uint32_t* to) {
  Words columns[4][4];
  for (int64_t r = 0; r < 4; ++r) transpose_four(from + 4 * r * row_bytes, row_bytes, columns[r]);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t r = 0; r < 4; ++r) store_words(columns[r][i], to + i * kLanes + 4 * r);
  }
}

// 16 whole rows of `words` words of four bytes (a float32, or a pair of 2-byte elements) from the
// first row of a tile on. Sixteen words of every row at a time: each cache line of the source is
// read once however far apart the rows are (1,024 elements apart, all 16 fall into one cache set).
// What the next tile reads is asked for now, since streams as short as a row are not foreseen, and
// into the second cache, since two tiles do not fit into the first: rows of 1,152 bytes in memory
// are packed at 7 GB/s by one thread without, 8 with the first cache, 17 with the second (Zen 4).
void pack_tile(uint32_t* packed, int64_t words, int64_t row_bytes, const std::byte* source) {
  int64_t c = 0;
  for (; c + kLanes <= words; c += kLanes) {
    const std::byte* const next = source + kLanes * row_bytes + c * kLineBytes;
    for (int64_t line = 0; line < kLanes; ++line) {
      __builtin_prefetch(next + line * kLineBytes, /*write=*/0, kIntoSecondCache);
    }
    for (int64_t i = c; i < c + kLanes; i += 4) {
      pack_four_lines(source + i * 4, row_bytes, packed + i * kLanes);
    }
  }
  for (; c < words; ++c) {
    for (int64_t r = 0; r < kLanes; ++r) {
      std::memcpy(packed + c * kLanes + r, source + r * row_bytes + c * 4, 4);
    }
  }
}

// The same of all elements: of an odd number of 2-byte columns the last is one half of a pair.
template <typename T>
void pack_tile_of(T* packed, int64_t k, int64_t row, const std::byte* source) {
  constexpr int64_t kDepth = sizeof(T) == 2 ? 2 : 1;
  const int64_t words = k / kDepth;
  const int64_t row_bytes = k * int64_t(sizeof(T));
  T* const tile = packed + row / kLanes * ((k + kDepth - 1) / kDepth) * kDepth * kLanes;
  pack_tile(reinterpret_cast<uint32_t*>(tile), words, row_bytes, source);
  if (k % kDepth == 0) return;
  for (int64_t r = 0; r < kLanes; ++r) {
    std::memcpy(tile + (words * kLanes + r) * kDepth, source + (r + 1) * row_bytes - sizeof(T),
                sizeof(T));
  }
}

template <typename T>
void pack_rows_typed(T* packed, int64_t k, int64_t row, int64_t rows, const std::byte* source) {
  const int64_t row_bytes = k * int64_t(sizeof(T));
  const int64_t head = std::min(rows, (kLanes - row % kLanes) % kLanes);
  pack_single_rows(packed, k, row, head, source);
  int64_t done = head;
  for (; done + kLanes <= rows; done += kLanes) {
    pack_tile_of(packed, k, row + done, source + done * row_bytes);
  }
  finish_stores();
  pack_single_rows(packed, k, row + done, rows - done, source + done * row_bytes);
}

template <typename T>
void unpack_single_rows(const T* packed, int64_t k, int64_t row, int64_t rows,
                        std::byte* destination) {
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
    pack_rows_typed(reinterpret_cast<uint16_t*>(packed), k, row, rows, source);
  } else {
    pack_rows_typed(reinterpret_cast<uint32_t*>(packed), k, row, rows, source);
  }
}

// A line of 64 bytes holds one word of each of the 16 rows of a tile, whatever the type.
bool packed_rows_differ(const std::byte* a, const std::byte* b, DType dtype, int64_t k, int64_t row,
                        int64_t rows) {
  constexpr int64_t kWord = 4;
  const int64_t lines = size_of(dtype) == 2 ? (k + 1) / 2 : k;
  const int64_t tile_bytes = lines * kLanes * kWord;
  for (const int64_t end = row + rows; row < end;) {
    const int64_t lane = row % kLanes;
    const int64_t lanes = std::min(kLanes - lane, end - row);
    const int64_t tile = row / kLanes * tile_bytes;
    row += lanes;
    if (lanes == kLanes) {
      if (std::memcmp(a + tile, b + tile, size_t(tile_bytes)) != 0) return true;
      continue;
    }
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t at = tile + (line * kLanes + lane) * kWord;
      if (std::memcmp(a + at, b + at, size_t(lanes * kWord)) != 0) return true;
    }
  }
  return false;
}

void unpack_rows(const PackedMatrix& matrix, int64_t row, int64_t rows, std::byte* destination) {
  if (size_of(matrix.dtype) == 2) {
    unpack_single_rows(reinterpret_cast<const uint16_t*>(matrix.data), matrix.k, row, rows,
                       destination);
  } else {
    unpack_single_rows(reinterpret_cast<const uint32_t*>(matrix.data), matrix.k, row, rows,
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
