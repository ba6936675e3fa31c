#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simd/macros.h"

// See f32x16_scalar.h for what each function does. Needs AVX2, FMA and F16C.
namespace rlgen::kernels::avx2 {

// 16 registers, two a vector: 6 x 1 leaves 12 sums, one tile row and one broadcast.
constexpr int kGemmRows = 6;
RLGEN_INLINE constexpr int gemm_tiles(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

struct F32x16 {
  __m256 lo;
  __m256 hi;
};

struct Mask16 {
  __m256 lo;
  __m256 hi;
};

struct F64x16 {
  __m256d v[4];
};

struct F32Pair {
  F32x16 even;
  F32x16 odd;
};

// All bits of lane i are set where i < n - first.
RLGEN_INLINE __m256i lanes_below(int n, int first) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first), lane);
}

RLGEN_INLINE F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
RLGEN_INLINE F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }

RLGEN_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
RLGEN_INLINE F32x16 load_n(const float* p, int n) {
  return {_mm256_maskload_ps(p, lanes_below(n, 0)), _mm256_maskload_ps(p + 8, lanes_below(n, 8))};
}
RLGEN_INLINE void store(F32x16 a, float* p) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
RLGEN_INLINE void store_n(F32x16 a, float* p, int n) {
  _mm256_maskstore_ps(p, lanes_below(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, lanes_below(n, 8), a.hi);
}

RLGEN_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
RLGEN_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
RLGEN_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
RLGEN_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
RLGEN_INLINE F32x16 negate(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
RLGEN_INLINE F32x16 sqrt(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
RLGEN_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

// The instruction is defined as a > b ? a : b.
RLGEN_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
RLGEN_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

RLGEN_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
RLGEN_INLINE Mask16 less_equal(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
RLGEN_INLINE Mask16 equal(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
RLGEN_INLINE Mask16 first_lanes(int n) {
  return {_mm256_castsi256_ps(lanes_below(n, 0)), _mm256_castsi256_ps(lanes_below(n, 8))};
}
RLGEN_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
RLGEN_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}
RLGEN_INLINE uint32_t mask_bits(Mask16 m) {
  return uint32_t(_mm256_movemask_ps(m.lo)) | (uint32_t(_mm256_movemask_ps(m.hi)) << 8);
}

RLGEN_INLINE __m256 scale_half(__m256 a, __m256 t) {
  const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), n));
}
RLGEN_INLINE F32x16 scale_pow2(F32x16 a, F32x16 t) {
  return {scale_half(a.lo, t.lo), scale_half(a.hi, t.hi)};
}

RLGEN_INLINE __m128i load_8x16(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
RLGEN_INLINE __m256 from_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
// The low 16 bits of each 32-bit lane; the lanes must be below 2^16.
RLGEN_INLINE __m128i narrow(__m256i x) {
  const __m256i packed = _mm256_packus_epi32(x, x);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
RLGEN_INLINE __m128i to_bf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i top = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return narrow(_mm256_blendv_epi8(rounded, quiet, nan));
}
RLGEN_INLINE __m128i to_f16(__m256 a) {
  return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLGEN_INLINE void store_8x16(__m128i x, uint16_t* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), x);
}

RLGEN_INLINE F32x16 load_bf16(const uint16_t* p) {
  return {from_bf16(load_8x16(p)), from_bf16(load_8x16(p + 8))};
}
RLGEN_INLINE F32x16 load_bf16_n(const uint16_t* p, int n) {
  uint16_t all[16] = {};
  memcpy(all, p, size_t(n) * sizeof *p);
  return load_bf16(all);
}
RLGEN_INLINE F32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_8x16(p)), _mm256_cvtph_ps(load_8x16(p + 8))};
}
RLGEN_INLINE F32x16 load_f16_n(const uint16_t* p, int n) {
  uint16_t all[16] = {};
  memcpy(all, p, size_t(n) * sizeof *p);
  return load_f16(all);
}
RLGEN_INLINE void store_bf16(F32x16 a, uint16_t* p) {
  store_8x16(to_bf16(a.lo), p);
  store_8x16(to_bf16(a.hi), p + 8);
}
RLGEN_INLINE void store_bf16_n(F32x16 a, uint16_t* p, int n) {
  uint16_t all[16];
  store_bf16(a, all);
  memcpy(p, all, size_t(n) * sizeof *p);
}
RLGEN_INLINE void store_f16(F32x16 a, uint16_t* p) {
  store_8x16(to_f16(a.lo), p);
  store_8x16(to_f16(a.hi), p + 8);
}
RLGEN_INLINE void store_f16_n(F32x16 a, uint16_t* p, int n) {
  uint16_t all[16];
  store_f16(a, all);
  memcpy(p, all, size_t(n) * sizeof *p);
}

// Nothing, but that compilers keep a sum of many in its two of the sixteen registers.
RLGEN_INLINE void stay_in_register(F32x16& a) { asm("" : "+x"(a.lo), "+x"(a.hi)); }

RLGEN_INLINE F32Pair load_bf16_pair(const uint16_t* p) {
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  const __m256i high = _mm256_set1_epi32(int32_t(0xffff0000u));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
           _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))},
          {_mm256_castsi256_ps(_mm256_and_si256(lo, high)),
           _mm256_castsi256_ps(_mm256_and_si256(hi, high))}};
}
RLGEN_INLINE F32Pair load_f16_pair(const uint16_t* p) {
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  const __m256i low = _mm256_set1_epi32(0xffff);
  return {{_mm256_cvtph_ps(narrow(_mm256_and_si256(lo, low))),
           _mm256_cvtph_ps(narrow(_mm256_and_si256(hi, low)))},
          {_mm256_cvtph_ps(narrow(_mm256_srli_epi32(lo, 16))),
           _mm256_cvtph_ps(narrow(_mm256_srli_epi32(hi, 16)))}};
}

RLGEN_INLINE float reduce_sum(F32x16 a) {
  const __m256 by8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
RLGEN_INLINE float reduce_max(F32x16 a) {
  const __m256 by8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}

RLGEN_INLINE F64x16 zero_f64() {
  const __m256d z = _mm256_setzero_pd();
  return {{z, z, z, z}};
}
RLGEN_INLINE F64x16 widen(F32x16 a) {
  return {{_mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)),
           _mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1)),
           _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)),
           _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1))}};
}
RLGEN_INLINE F64x16 operator+(F64x16 a, F64x16 b) {
  return {{_mm256_add_pd(a.v[0], b.v[0]), _mm256_add_pd(a.v[1], b.v[1]),
           _mm256_add_pd(a.v[2], b.v[2]), _mm256_add_pd(a.v[3], b.v[3])}};
}
RLGEN_INLINE double reduce_sum(F64x16 a) {
  const __m256d lo = _mm256_add_pd(a.v[0], a.v[2]);
  const __m256d hi = _mm256_add_pd(a.v[1], a.v[3]);
  const __m256d by4 = _mm256_add_pd(lo, hi);
  const __m128d by2 = _mm_add_pd(_mm256_castpd256_pd128(by4), _mm256_extractf128_pd(by4, 1));
  return _mm_cvtsd_f64(_mm_add_sd(by2, _mm_unpackhi_pd(by2, by2)));
}

}  // namespace rlgen::kernels::avx2
