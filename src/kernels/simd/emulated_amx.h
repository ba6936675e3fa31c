#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The tile registers of AMX on a machine that has none, for builds with RLGEN_EMULATE_AVX512. The
// caller's float mode does not matter, as with the processor.
namespace rlgen::kernels::emulated {

struct Tile {
  int rows;
  char bytes[16][64];
};

inline Tile& tile(int index) {
  thread_local Tile all[8];
  return all[index];
}

inline void zero_tile(int index) { memset(tile(index).bytes, 0, sizeof tile(index).bytes); }

inline void shape_tiles(const uint8_t* rows) {
  for (int index = 0; index < 8; ++index) {
    tile(index).rows = rows[index];
    zero_tile(index);
  }
}

inline void load_tile(int index, const void* first, size_t stride) {
  Tile& t = tile(index);
  for (int row = 0; row < t.rows; ++row) {
    memcpy(t.bytes[row], static_cast<const char*>(first) + size_t(row) * stride, 64);
  }
}

inline void store_tile(int index, float* first, size_t stride) {
  const Tile& t = tile(index);
  for (int row = 0; row < t.rows; ++row) {
    memcpy(reinterpret_cast<char*>(first) + size_t(row) * stride, t.bytes[row], 64);
  }
}

// Zero of its sign for a subnormal number.
inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

inline float half_at(const char* p) {
  uint32_t bits = 0;
  memcpy(reinterpret_cast<char*>(&bits) + 2, p, 2);
  float value;
  memcpy(&value, &bits, sizeof value);
  return flushed(value);
}

// Scaled by 2^64 the sum is rounded without an end to its exponents, and tells whether 2^-126 is
// what it was rounded up to.
inline float add_product(float x, float w, float sum) {
  const float result = fmaf(x, w, sum);
  if (!(fabsf(result) <= 0x1p-126f) || result == 0.0f) return result;
  const float scaled = fmaf(x * 0x1p64f, w, sum * 0x1p64f);
  return fabsf(scaled) < 0x1p-62f ? copysignf(0.0f, result) : result;
}

inline void add_products(int sum, int rows, int block) {
  for (int m = 0; m < tile(sum).rows; ++m) {
    const char* const x = tile(rows).bytes[m];
    for (int n = 0; n < 16; ++n) {
      float even = 0.0f;
      float odd = 0.0f;
      for (int k = 0; k < 16; ++k) {
        const char* const w = tile(block).bytes[k] + 4 * n;
        even = add_product(half_at(x + 4 * k), half_at(w), even);
        odd = add_product(half_at(x + 4 * k + 2), half_at(w + 2), odd);
      }
      char* const place = tile(sum).bytes[m] + 4 * n;
      float total;
      memcpy(&total, place, sizeof total);
      total = flushed(flushed(total) + flushed(even + odd));
      memcpy(place, &total, sizeof total);
    }
  }
}

}  // namespace rlgen::kernels::emulated
