#pragma once

// The intrinsics of AVX-512 on a machine that has AVX2: SIMDe's, and here those that it lacks. For
// builds with RLGEN_EMULATE_AVX512, whose files of isa/ begin with this one. Slow; the same bits.
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#include <stdint.h>
#include <string.h>

namespace emulated {

inline __m512 maskz_loadu_ps(__mmask16 mask, const void* p) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = (mask >> i & 1) != 0 ? static_cast<const float*>(p)[i] : 0.0f;
  }
  return simde_mm512_loadu_ps(lanes);
}

inline void mask_storeu_ps(void* p, __mmask16 mask, __m512 a) {
  float lanes[16];
  simde_mm512_storeu_ps(lanes, a);
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) static_cast<float*>(p)[i] = lanes[i];
  }
}

inline __m256i maskz_loadu_epi16(__mmask16 mask, const void* p) {
  uint16_t lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = (mask >> i & 1) != 0 ? static_cast<const uint16_t*>(p)[i] : uint16_t{0};
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes));
}

inline void mask_storeu_epi16(void* p, __mmask16 mask, __m256i a) {
  uint16_t lanes[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), a);
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) static_cast<uint16_t*>(p)[i] = lanes[i];
  }
}

inline __m512 both(__m256 low, __m256 high) {
  float lanes[16];
  _mm256_storeu_ps(lanes, low);
  _mm256_storeu_ps(lanes + 8, high);
  return simde_mm512_loadu_ps(lanes);
}

inline __m256 half(__m512 a, int which) {
  float lanes[16];
  simde_mm512_storeu_ps(lanes, a);
  return _mm256_loadu_ps(lanes + 8 * which);
}

inline __m512 cvtph_ps(__m256i a) {
  return both(_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
              _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}

inline __m256i cvtps_ph(__m512 a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return _mm256_set_m128i(_mm256_cvtps_ph(half(a, 1), kNearest),
                          _mm256_cvtps_ph(half(a, 0), kNearest));
}

inline __m256i cvtepi32_epi16(__m512i a) {
  uint32_t wide[16];
  uint16_t narrow[16];
  simde_mm512_storeu_si512(wide, a);
  for (int i = 0; i < 16; ++i) narrow[i] = static_cast<uint16_t>(wide[i]);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(narrow));
}

inline __m512d cvtps_pd(__m256 a) {
  float lanes[8];
  double wide[8];
  _mm256_storeu_ps(lanes, a);
  for (int i = 0; i < 8; ++i) wide[i] = lanes[i];
  return simde_mm512_loadu_pd(wide);
}

// In flush mode, in which the kernels run it, two multiply-adds are the instruction.
inline __m512 dpbf16_ps(__m512 sum, __m512i a, __m512i b) {
  const __m512i high = simde_mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
  const auto odd = [&](__m512i x) {
    return simde_mm512_castsi512_ps(simde_mm512_and_si512(x, high));
  };
  const auto even = [&](__m512i x) {
    return simde_mm512_castsi512_ps(simde_mm512_slli_epi32(x, 16));
  };
  return simde_mm512_fmadd_ps(even(a), even(b), simde_mm512_fmadd_ps(odd(a), odd(b), sum));
}

inline __m256i cvtneps_pbh(__m512 a) {
  uint32_t bits[16];
  uint16_t narrow[16];
  simde_mm512_storeu_si512(bits, simde_mm512_castps_si512(a));
  for (int i = 0; i < 16; ++i) {
    const uint32_t rounded = bits[i] + 0x7fffu + (bits[i] >> 16 & 1u);
    const bool nan = (bits[i] & 0x7fffffffu) > 0x7f800000u;
    narrow[i] = static_cast<uint16_t>((nan ? bits[i] | 0x400000u : rounded) >> 16);
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(narrow));
}

}  // namespace emulated

#undef _mm256_mask_storeu_epi16
#undef _mm256_maskz_loadu_epi16
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtneps_pbh
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_pd
#undef _mm512_cvtps_ph
#undef _mm512_dpbf16_ps
#undef _mm512_extractf32x8_ps
#undef _mm512_mask_storeu_ps
#undef _mm512_maskz_loadu_ps

#define __AVX512F__ 1  // the kernels ask for it
#define _mm512_maskz_loadu_ps emulated::maskz_loadu_ps
#define _mm512_mask_storeu_ps emulated::mask_storeu_ps
#define _mm256_maskz_loadu_epi16 emulated::maskz_loadu_epi16
#define _mm256_mask_storeu_epi16 emulated::mask_storeu_epi16
#define _mm512_cvtph_ps emulated::cvtph_ps
#define _mm512_cvtps_pd emulated::cvtps_pd
#define _mm512_cvtneps_pbh emulated::cvtneps_pbh
#define _mm512_cvtepi32_epi16 emulated::cvtepi32_epi16
#define _mm512_extractf32x8_ps emulated::half
#define _mm512_cvtps_ph(a, rounding) emulated::cvtps_ph(a)
#define _mm512_dpbf16_ps(sum, a, b) emulated::dpbf16_ps(sum, (__m512i)(a), (__m512i)(b))
