#pragma once

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simd/macros.h"

// See f32x16_scalar.h for what each function does. AArch64.
namespace rlgen::kernels::neon {

// 32 registers, four a vector: 6 x 1 leaves 24 sums, one tile row and one broadcast.
constexpr int kGemmRows = 6;
RLGEN_INLINE constexpr int gemm_tiles(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

struct F32x16 {
  float32x4_t v[4];
};

struct Mask16 {
  uint32x4_t v[4];
};

struct F64x16 {
  float64x2_t v[8];
};

struct F32Pair {
  F32x16 even;
  F32x16 odd;
};

RLGEN_INLINE F32x16 broadcast(float x) {
  const float32x4_t q = vdupq_n_f32(x);
  return {{q, q, q, q}};
}
RLGEN_INLINE F32x16 zero() { return broadcast(0.0f); }

RLGEN_INLINE F32x16 load(const float* p) {
  return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
RLGEN_INLINE F32x16 load_n(const float* p, int n) {
  float all[16] = {};
  memcpy(all, p, size_t(n) * sizeof *p);
  return load(all);
}
RLGEN_INLINE void store(F32x16 a, float* p) {
  vst1q_f32(p, a.v[0]);
  vst1q_f32(p + 4, a.v[1]);
  vst1q_f32(p + 8, a.v[2]);
  vst1q_f32(p + 12, a.v[3]);
}
RLGEN_INLINE void store_n(F32x16 a, float* p, int n) {
  float all[16];
  store(a, all);
  memcpy(p, all, size_t(n) * sizeof *p);
}

RLGEN_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {{vaddq_f32(a.v[0], b.v[0]), vaddq_f32(a.v[1], b.v[1]), vaddq_f32(a.v[2], b.v[2]),
           vaddq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {{vsubq_f32(a.v[0], b.v[0]), vsubq_f32(a.v[1], b.v[1]), vsubq_f32(a.v[2], b.v[2]),
           vsubq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {{vmulq_f32(a.v[0], b.v[0]), vmulq_f32(a.v[1], b.v[1]), vmulq_f32(a.v[2], b.v[2]),
           vmulq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {{vdivq_f32(a.v[0], b.v[0]), vdivq_f32(a.v[1], b.v[1]), vdivq_f32(a.v[2], b.v[2]),
           vdivq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE F32x16 negate(F32x16 a) {
  return {{vnegq_f32(a.v[0]), vnegq_f32(a.v[1]), vnegq_f32(a.v[2]), vnegq_f32(a.v[3])}};
}
RLGEN_INLINE F32x16 sqrt(F32x16 a) {
  return {{vsqrtq_f32(a.v[0]), vsqrtq_f32(a.v[1]), vsqrtq_f32(a.v[2]), vsqrtq_f32(a.v[3])}};
}
RLGEN_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {{vfmaq_f32(c.v[0], a.v[0], b.v[0]), vfmaq_f32(c.v[1], a.v[1], b.v[1]),
           vfmaq_f32(c.v[2], a.v[2], b.v[2]), vfmaq_f32(c.v[3], a.v[3], b.v[3])}};
}

RLGEN_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return {{vcltq_f32(a.v[0], b.v[0]), vcltq_f32(a.v[1], b.v[1]), vcltq_f32(a.v[2], b.v[2]),
           vcltq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE Mask16 less_equal(F32x16 a, F32x16 b) {
  return {{vcleq_f32(a.v[0], b.v[0]), vcleq_f32(a.v[1], b.v[1]), vcleq_f32(a.v[2], b.v[2]),
           vcleq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE Mask16 equal(F32x16 a, F32x16 b) {
  return {{vceqq_f32(a.v[0], b.v[0]), vceqq_f32(a.v[1], b.v[1]), vceqq_f32(a.v[2], b.v[2]),
           vceqq_f32(a.v[3], b.v[3])}};
}
RLGEN_INLINE Mask16 first_lanes(int n) {
  const uint32_t lanes[4] = {0, 1, 2, 3};
  const uint32x4_t lane = vld1q_u32(lanes);
  Mask16 m;
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) {
    m.v[q] = vcltq_u32(vaddq_u32(lane, vdupq_n_u32(uint32_t(4 * q))), vdupq_n_u32(uint32_t(n)));
  }
  return m;
}
RLGEN_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return {{vandq_u32(a.v[0], b.v[0]), vandq_u32(a.v[1], b.v[1]), vandq_u32(a.v[2], b.v[2]),
           vandq_u32(a.v[3], b.v[3])}};
}
RLGEN_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {{vbslq_f32(m.v[0], a.v[0], b.v[0]), vbslq_f32(m.v[1], a.v[1], b.v[1]),
           vbslq_f32(m.v[2], a.v[2], b.v[2]), vbslq_f32(m.v[3], a.v[3], b.v[3])}};
}
RLGEN_INLINE uint32_t mask_bits(Mask16 m) {
  const uint32_t weights[4] = {1, 2, 4, 8};
  const uint32x4_t weight = vld1q_u32(weights);
  uint32_t bits = 0;
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) bits |= vaddvq_u32(vandq_u32(m.v[q], weight)) << (4 * q);
  return bits;
}

RLGEN_INLINE F32x16 max(F32x16 a, F32x16 b) { return select(less(b, a), a, b); }
RLGEN_INLINE F32x16 min(F32x16 a, F32x16 b) { return select(less(a, b), a, b); }

RLGEN_INLINE F32x16 scale_pow2(F32x16 a, F32x16 t) {
  F32x16 r;
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) {
    const uint32x4_t n = vshlq_n_u32(vreinterpretq_u32_f32(t.v[q]), 23);
    r.v[q] = vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(a.v[q]), n));
  }
  return r;
}

RLGEN_INLINE float32x4_t from_bf16(uint16x4_t x) {
  return vreinterpretq_f32_u32(vshll_n_u16(x, 16));
}
RLGEN_INLINE uint16x4_t to_bf16(float32x4_t a) {
  const uint32x4_t bits = vreinterpretq_u32_f32(a);
  const uint32x4_t top = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(top, vdupq_n_u32(1));
  const uint32x4_t bias = vaddq_u32(odd, vdupq_n_u32(0x7fff));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(bits, bias), 16);
  const uint32x4_t quiet = vorrq_u32(top, vdupq_n_u32(0x40));
  return vmovn_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet));
}
RLGEN_INLINE float32x4_t from_f16(uint16x4_t x) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
RLGEN_INLINE uint16x4_t to_f16(float32x4_t a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }

RLGEN_INLINE F32x16 load_bf16(const uint16_t* p) {
  return {{from_bf16(vld1_u16(p)), from_bf16(vld1_u16(p + 4)), from_bf16(vld1_u16(p + 8)),
           from_bf16(vld1_u16(p + 12))}};
}
RLGEN_INLINE F32x16 load_bf16_n(const uint16_t* p, int n) {
  uint16_t all[16] = {};
  memcpy(all, p, size_t(n) * sizeof *p);
  return load_bf16(all);
}
RLGEN_INLINE F32x16 load_f16(const uint16_t* p) {
  return {{from_f16(vld1_u16(p)), from_f16(vld1_u16(p + 4)), from_f16(vld1_u16(p + 8)),
           from_f16(vld1_u16(p + 12))}};
}
RLGEN_INLINE F32x16 load_f16_n(const uint16_t* p, int n) {
  uint16_t all[16] = {};
  memcpy(all, p, size_t(n) * sizeof *p);
  return load_f16(all);
}
RLGEN_INLINE void store_bf16(F32x16 a, uint16_t* p) {
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) vst1_u16(p + 4 * q, to_bf16(a.v[q]));
}
RLGEN_INLINE void store_bf16_n(F32x16 a, uint16_t* p, int n) {
  uint16_t all[16];
  store_bf16(a, all);
  memcpy(p, all, size_t(n) * sizeof *p);
}
RLGEN_INLINE void store_f16(F32x16 a, uint16_t* p) {
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) vst1_u16(p + 4 * q, to_f16(a.v[q]));
}
RLGEN_INLINE void store_f16_n(F32x16 a, uint16_t* p, int n) {
  uint16_t all[16];
  store_f16(a, all);
  memcpy(p, all, size_t(n) * sizeof *p);
}

RLGEN_INLINE void stay_in_register(F32x16&) {}

RLGEN_INLINE F32Pair load_bf16_pair(const uint16_t* p) {
  F32Pair r;
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) {
    const uint32x4_t x = vreinterpretq_u32_u16(vld1q_u16(p + 8 * q));
    r.even.v[q] = vreinterpretq_f32_u32(vshlq_n_u32(x, 16));
    r.odd.v[q] = vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xffff0000u)));
  }
  return r;
}
RLGEN_INLINE F32Pair load_f16_pair(const uint16_t* p) {
  F32Pair r;
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) {
    const uint16x4x2_t x = vld2_u16(p + 8 * q);
    r.even.v[q] = from_f16(x.val[0]);
    r.odd.v[q] = from_f16(x.val[1]);
  }
  return r;
}

RLGEN_INLINE float reduce_sum(F32x16 a) {
  const float32x4_t by4 = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t by2 = vadd_f32(vget_low_f32(by4), vget_high_f32(by4));
  return vget_lane_f32(by2, 0) + vget_lane_f32(by2, 1);
}
RLGEN_INLINE float32x4_t max_quarter(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
RLGEN_INLINE float reduce_max(F32x16 a) {
  const float32x4_t by4 = max_quarter(max_quarter(a.v[0], a.v[2]), max_quarter(a.v[1], a.v[3]));
  const float32x4_t by2 = max_quarter(by4, vextq_f32(by4, by4, 2));
  const float lo = vgetq_lane_f32(by2, 0);
  const float hi = vgetq_lane_f32(by2, 1);
  return lo > hi ? lo : hi;
}

RLGEN_INLINE F64x16 zero_f64() {
  const float64x2_t z = vdupq_n_f64(0.0);
  return {{z, z, z, z, z, z, z, z}};
}
RLGEN_INLINE F64x16 widen(F32x16 a) {
  F64x16 r;
  RLGEN_UNROLL
  for (int q = 0; q < 4; ++q) {
    r.v[2 * q] = vcvt_f64_f32(vget_low_f32(a.v[q]));
    r.v[2 * q + 1] = vcvt_high_f64_f32(a.v[q]);
  }
  return r;
}
RLGEN_INLINE F64x16 operator+(F64x16 a, F64x16 b) {
  RLGEN_UNROLL
  for (int i = 0; i < 8; ++i) a.v[i] = vaddq_f64(a.v[i], b.v[i]);
  return a;
}
RLGEN_INLINE double reduce_sum(F64x16 a) {
  RLGEN_UNROLL
  for (int i = 0; i < 4; ++i) a.v[i] = vaddq_f64(a.v[i], a.v[i + 4]);
  const float64x2_t by2 = vaddq_f64(vaddq_f64(a.v[0], a.v[2]), vaddq_f64(a.v[1], a.v[3]));
  return vgetq_lane_f64(by2, 0) + vgetq_lane_f64(by2, 1);
}

}  // namespace rlgen::kernels::neon
