#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "kernels/simd/macros.h"

// See f32x16_scalar.h for what each function does. Needs AVX-512 F, BW, VL and DQ.
namespace rlgen::kernels::avx512 {

// 32 registers: at most 24 sums; at least 8, which two FMA ports of latency 4 need.
constexpr int kGemmRows = 12;
RLGEN_INLINE constexpr int gemm_tiles(int rows) { return rows <= 3 ? 8 : rows <= 6 ? 4 : 2; }

struct F32x16 {
  __m512 v;
};

struct Mask16 {
  __mmask16 v;
};

struct F64x16 {
  __m512d lo;
  __m512d hi;
};

struct F32Pair {
  F32x16 even;
  F32x16 odd;
};

RLGEN_INLINE __mmask16 lanes_below(int n) { return __mmask16((1u << n) - 1u); }

RLGEN_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
RLGEN_INLINE F32x16 zero() { return {_mm512_setzero_ps()}; }

RLGEN_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
RLGEN_INLINE F32x16 load_n(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(lanes_below(n), p)};
}
RLGEN_INLINE void store(F32x16 a, float* p) { _mm512_storeu_ps(p, a.v); }
RLGEN_INLINE void store_n(F32x16 a, float* p, int n) {
  _mm512_mask_storeu_ps(p, lanes_below(n), a.v);
}

RLGEN_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
RLGEN_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
RLGEN_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
RLGEN_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
RLGEN_INLINE F32x16 negate(F32x16 a) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), sign))};
}
RLGEN_INLINE F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
RLGEN_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

// The instruction is defined as a > b ? a : b.
RLGEN_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
RLGEN_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }

RLGEN_INLINE Mask16 less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
RLGEN_INLINE Mask16 less_equal(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
RLGEN_INLINE Mask16 equal(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
RLGEN_INLINE Mask16 first_lanes(int n) { return {lanes_below(n)}; }
RLGEN_INLINE Mask16 operator&(Mask16 a, Mask16 b) { return {__mmask16(a.v & b.v)}; }
RLGEN_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm512_mask_blend_ps(m.v, b.v, a.v)};
}
RLGEN_INLINE uint32_t mask_bits(Mask16 m) { return m.v; }

RLGEN_INLINE F32x16 scale_pow2(F32x16 a, F32x16 t) {
  const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), n))};
}

// Each 16-bit lane goes to the upper half of its 32-bit lane: one permutation, where a widening and
// a shift would take both ports of the multiply-add.
RLGEN_INLINE F32x16 from_bf16(__m256i x) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i source = _mm512_slli_epi32(lane, 16);
  return {_mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaau, source, _mm512_castsi256_si512(x)))};
}
RLGEN_INLINE __m256i to_bf16(F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i top = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
  const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
  const __m512i quiet = _mm512_or_si512(top, _mm512_set1_epi32(0x40));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet));
}

RLGEN_INLINE F32x16 load_bf16(const uint16_t* p) {
  return from_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
RLGEN_INLINE F32x16 load_bf16_n(const uint16_t* p, int n) {
  return from_bf16(_mm256_maskz_loadu_epi16(lanes_below(n), p));
}
RLGEN_INLINE F32x16 load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
RLGEN_INLINE F32x16 load_f16_n(const uint16_t* p, int n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(n), p))};
}
RLGEN_INLINE void store_bf16(F32x16 a, uint16_t* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(a));
}
RLGEN_INLINE void store_bf16_n(F32x16 a, uint16_t* p, int n) {
  _mm256_mask_storeu_epi16(p, lanes_below(n), to_bf16(a));
}
RLGEN_INLINE __m256i to_f16(F32x16 a) {
  return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLGEN_INLINE void store_f16(F32x16 a, uint16_t* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_f16(a));
}
RLGEN_INLINE void store_f16_n(F32x16 a, uint16_t* p, int n) {
  _mm256_mask_storeu_epi16(p, lanes_below(n), to_f16(a));
}

RLGEN_INLINE void stay_in_register(F32x16&) {}

RLGEN_INLINE F32Pair load_bf16_pair(const uint16_t* p) {
  const __m512i x = _mm512_loadu_si512(p);
  const __m512i high = _mm512_set1_epi32(int32_t(0xffff0000u));
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(x, 16))},
          {_mm512_castsi512_ps(_mm512_and_si512(x, high))}};
}
RLGEN_INLINE F32Pair load_f16_pair(const uint16_t* p) {
  const __m512i x = _mm512_loadu_si512(p);
  return {{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(x))},
          {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)))}};
}

RLGEN_INLINE float reduce_sum(F32x16 a) {
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
RLGEN_INLINE float reduce_max(F32x16 a) {
  const __m256 by8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}

RLGEN_INLINE F64x16 zero_f64() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
RLGEN_INLINE F64x16 widen(F32x16 a) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(a.v)),
          _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1))};
}
RLGEN_INLINE F64x16 operator+(F64x16 a, F64x16 b) {
  return {_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)};
}
RLGEN_INLINE double reduce_sum(F64x16 a) {
  const __m512d by8 = _mm512_add_pd(a.lo, a.hi);
  const __m256d by4 = _mm256_add_pd(_mm512_castpd512_pd256(by8), _mm512_extractf64x4_pd(by8, 1));
  const __m128d by2 = _mm_add_pd(_mm256_castpd256_pd128(by4), _mm256_extractf128_pd(by4, 1));
  return _mm_cvtsd_f64(_mm_add_sd(by2, _mm_unpackhi_pd(by2, by2)));
}

#if defined(RLGEN_BF16_DOT)
// Sixteen pairs of bfloat16.
struct Bf16Pairs {
  __m512i v;
};

RLGEN_INLINE Bf16Pairs load_pairs(const uint16_t* p) { return {_mm512_loadu_si512(p)}; }
// Pairs from n on are zero.
RLGEN_INLINE Bf16Pairs load_pairs_n(const uint16_t* p, int n) {
  return {_mm512_castps_si512(_mm512_maskz_loadu_ps(lanes_below(n), p))};
}
// The bits of sixteen pairs.
RLGEN_INLINE F32x16 pair_bits(Bf16Pairs a) { return {_mm512_castsi512_ps(a.v)}; }

// Sixteen single ones; elements from n on are zero.
RLGEN_INLINE __m256i load_halves_n(const uint16_t* p, int n) {
  return n == 16 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                 : _mm256_maskz_loadu_epi16(lanes_below(n), p);
}
// Rounds lanes that are zero, normal numbers or NaN.
RLGEN_INLINE void store_normal_bf16(F32x16 a, uint16_t* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), __m256i(_mm512_cvtneps_pbh(a.v)));
}
// Rounds as store_bf16 does; the instruction takes subnormal numbers for zero.
RLGEN_INLINE void store_bf16_fast(F32x16 a, uint16_t* p) {
  const __m512 size = _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v);
  if (_mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-126f), _CMP_LT_OQ) != 0) return store_bf16(a, p);
  store_normal_bf16(a, p);
}
RLGEN_INLINE Bf16Pairs interleave(__m256i even, __m256i odd) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i second = _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16);
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1);
  return {_mm512_permutexvar_epi16(_mm512_or_si512(lane, second), both)};
}

// One pair, held in the bits of a float, to all lanes.
RLGEN_INLINE Bf16Pairs broadcast_pair(const float* p) {
  return {_mm512_castps_si512(_mm512_set1_ps(*p))};
}
// sum + x.odd * w.odd, then + x.even * w.even. Clang 16 dies of the intrinsic.
RLGEN_INLINE F32x16 add_dot(Bf16Pairs x, Bf16Pairs w, F32x16 sum) {
#if defined(__clang__)
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(x.v), "v"(w.v));
  return sum;
#else
  return {_mm512_dpbf16_ps(sum.v, __m512bh(x.v), __m512bh(w.v))};
#endif
}
#endif

}  // namespace rlgen::kernels::avx512
