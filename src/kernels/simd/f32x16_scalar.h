#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simd/macros.h"

// Sixteen float32 lanes in plain C: the definition that the other three files repeat with
// intrinsics. All four have the same names with the same bits (NaN payloads aside); a comment
// stands here only. `n` is a count of leading lanes in [0, 16]; pointers need no alignment.
namespace rlgen::kernels::scalar {

// Register budget of a matrix product: at most so many rows at a time, each with so many tiles.
constexpr int kGemmRows = 4;
RLGEN_INLINE constexpr int gemm_tiles(int) { return 1; }

struct F32x16 {
  float v[16];
};

struct Mask16 {
  bool v[16];
};

struct F64x16 {
  double v[16];
};

struct F32Pair {
  F32x16 even;
  F32x16 odd;
};

RLGEN_INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

RLGEN_INLINE float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// f(lane) in every lane.
template <typename F>
RLGEN_INLINE F32x16 each(F f) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

template <typename F>
RLGEN_INLINE Mask16 each_mask(F f) {
  Mask16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

RLGEN_INLINE F32x16 broadcast(float x) {
  return each([&](int) { return x; });
}
RLGEN_INLINE F32x16 zero() { return broadcast(0.0f); }

RLGEN_INLINE F32x16 load(const float* p) {
  return each([&](int i) { return p[i]; });
}
// Lanes from n on are zero; their memory is not touched.
RLGEN_INLINE F32x16 load_n(const float* p, int n) {
  return each([&](int i) { return i < n ? p[i] : 0.0f; });
}
RLGEN_INLINE void store(F32x16 a, float* p) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
// Memory from n on is not touched.
RLGEN_INLINE void store_n(F32x16 a, float* p, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}

RLGEN_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
RLGEN_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
RLGEN_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
RLGEN_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
// Sign flipped, of NaN and zero too.
RLGEN_INLINE F32x16 negate(F32x16 a) {
  return each([&](int i) { return float_of(bits_of(a.v[i]) ^ 0x80000000u); });
}
RLGEN_INLINE F32x16 sqrt(F32x16 a) {
  return each([&](int i) { return sqrtf(a.v[i]); });
}
// a * b + c, rounded once.
RLGEN_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return each([&](int i) { return fmaf(a.v[i], b.v[i], c.v[i]); });
}

// a > b ? a : b, so the second one where a NaN or two zeros meet.
RLGEN_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
// a < b ? a : b.
RLGEN_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

// Comparisons are false where a NaN takes part.
RLGEN_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return each_mask([&](int i) { return a.v[i] < b.v[i]; });
}
RLGEN_INLINE Mask16 less_equal(F32x16 a, F32x16 b) {
  return each_mask([&](int i) { return a.v[i] <= b.v[i]; });
}
RLGEN_INLINE Mask16 equal(F32x16 a, F32x16 b) {
  return each_mask([&](int i) { return a.v[i] == b.v[i]; });
}
RLGEN_INLINE Mask16 first_lanes(int n) {
  return each_mask([&](int i) { return i < n; });
}
RLGEN_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return each_mask([&](int i) { return a.v[i] && b.v[i]; });
}
// m ? a : b.
RLGEN_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return each([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
// Bit i is lane i.
RLGEN_INLINE uint32_t mask_bits(Mask16 m) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= uint32_t(m.v[i]) << i;
  return bits;
}

// a * 2^n by addition to the exponent field, where t = n + 1.5 * 2^23 exactly. The result must be
// a normal number or 2^128, which comes out as infinity.
RLGEN_INLINE F32x16 scale_pow2(F32x16 a, F32x16 t) {
  return each([&](int i) { return float_of(bits_of(a.v[i]) + (bits_of(t.v[i]) << 23)); });
}

// The two 16-bit types, as stored; exact but for a signalling NaN, which may become quiet.
RLGEN_INLINE float f32_of_bf16(uint16_t x) { return float_of(uint32_t(x) << 16); }

RLGEN_INLINE float f32_of_f16(uint16_t x) {
  const uint32_t sign = uint32_t(x & 0x8000u) << 16;
  const uint32_t magnitude = x & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // The exponents differ by 112; a product with a power of two is exact for subnormals as well.
  const float scaled = float_of(magnitude << 13) * 0x1p112f;
  return float_of(sign | bits_of(scaled));
}

RLGEN_INLINE uint16_t bf16_of_f32(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

RLGEN_INLINE uint16_t f16_of_f32(float x) {
  const uint32_t sign = (bits_of(x) >> 16) & 0x8000u;
  const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);
  // Below the normal range of f16 the sum with 0.5 has a last place of 2^-24, that of a subnormal.
  if (magnitude < 0x38800000u) {
    return uint16_t(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
  }
  return uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
}

RLGEN_INLINE F32x16 load_bf16(const uint16_t* p) {
  return each([&](int i) { return f32_of_bf16(p[i]); });
}
RLGEN_INLINE F32x16 load_bf16_n(const uint16_t* p, int n) {
  return each([&](int i) { return i < n ? f32_of_bf16(p[i]) : 0.0f; });
}
RLGEN_INLINE F32x16 load_f16(const uint16_t* p) {
  return each([&](int i) { return f32_of_f16(p[i]); });
}
RLGEN_INLINE F32x16 load_f16_n(const uint16_t* p, int n) {
  return each([&](int i) { return i < n ? f32_of_f16(p[i]) : 0.0f; });
}
// Round to nearest even.
RLGEN_INLINE void store_bf16_n(F32x16 a, uint16_t* p, int n) {
  for (int i = 0; i < n; ++i) p[i] = bf16_of_f32(a.v[i]);
}
RLGEN_INLINE void store_f16_n(F32x16 a, uint16_t* p, int n) {
  for (int i = 0; i < n; ++i) p[i] = f16_of_f32(a.v[i]);
}
RLGEN_INLINE void store_bf16(F32x16 a, uint16_t* p) { store_bf16_n(a, p, 16); }
RLGEN_INLINE void store_f16(F32x16 a, uint16_t* p) { store_f16_n(a, p, 16); }

// [16][2] elements: the first of each pair in `even`, the second in `odd`.
RLGEN_INLINE void stay_in_register(F32x16&) {}

RLGEN_INLINE F32Pair load_bf16_pair(const uint16_t* p) {
  return {each([&](int i) { return f32_of_bf16(p[2 * i]); }),
          each([&](int i) { return f32_of_bf16(p[2 * i + 1]); })};
}
RLGEN_INLINE F32Pair load_f16_pair(const uint16_t* p) {
  return {each([&](int i) { return f32_of_f16(p[2 * i]); }),
          each([&](int i) { return f32_of_f16(p[2 * i + 1]); })};
}

// One tree: lanes i and i + 8, then i and i + 4, i + 2, i + 1, the lower lane on the left.
RLGEN_INLINE float reduce_sum(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}
RLGEN_INLINE float reduce_max(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

RLGEN_INLINE F64x16 zero_f64() {
  F64x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = 0.0;
  return r;
}
RLGEN_INLINE F64x16 widen(F32x16 a) {
  F64x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = double(a.v[i]);
  return r;
}
RLGEN_INLINE F64x16 operator+(F64x16 a, F64x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] + b.v[i];
  return a;
}
// The tree of the float32 sum.
RLGEN_INLINE double reduce_sum(F64x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}

}  // namespace rlgen::kernels::scalar
