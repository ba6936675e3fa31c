#pragma once

#include "kernels/simd/macros.h"

namespace rlgen::kernels::RLGEN_ISA {

// exp(x) is 0 below this bound; above it every result is a normal number.
constexpr float kExpLowest = -87.0f;
// log of the largest float32; above it exp is infinite.
constexpr float kExpHighest = 0x1.62e42ep+6f;

// e^x = 2^n mantissa; 2^n as `scale_pow2` takes it.
struct ExpParts {
  F32x16 mantissa;
  F32x16 n;
  F32x16 scale;
};

// x = n ln 2 + r with r within half of ln 2, e^r = 1 + r + r^2 q(r), q the polynomial of degree 4
// that makes the greatest relative error of e^r least (2^-28).
RLGEN_INLINE ExpParts exp_parts(F32x16 x) {
  const F32x16 magic = broadcast(0x1.8p23f);
  const F32x16 t = fma(x, broadcast(0x1.715476p+0f), magic);
  const F32x16 n = t - magic;
  const F32x16 high = fma(n, broadcast(-0x1.62e43p-1f), x);
  const F32x16 r = fma(n, broadcast(0x1.05c61p-29f), high);
  F32x16 q = broadcast(0x1.6a23dp-10f);
  q = fma(q, r, broadcast(0x1.123a2p-7f));
  q = fma(q, r, broadcast(0x1.5558f2p-5f));
  q = fma(q, r, broadcast(0x1.555492p-3f));
  q = fma(q, r, broadcast(0x1.fffffcp-2f));
  return {fma(q, r * r, r) + broadcast(1.0f), n, t};
}

// e^x, error below 1 unit in the last place (tests); NaN stays NaN.
RLGEN_INLINE F32x16 exp(F32x16 x) {
  const ExpParts parts = exp_parts(x);
  const F32x16 normal = scale_pow2(parts.mantissa, parts.scale);
  const F32x16 beyond = x + broadcast(__builtin_inff());
  const F32x16 from_below = select(less(x, broadcast(kExpLowest)), zero(), normal);
  return select(less_equal(x, broadcast(kExpHighest)), from_below, beyond);
}

// The same bits for x that is no larger than 0, or NaN.
RLGEN_INLINE F32x16 exp_of_difference(F32x16 x) {
#if defined(__AVX512F__)
  const ExpParts parts = exp_parts(x);
  const __mmask16 kept = _mm512_cmp_ps_mask(x.v, broadcast(kExpLowest).v, _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_ps(kept, parts.mantissa.v, parts.n.v)};
#else
  return exp(x);
#endif
}

}  // namespace rlgen::kernels::RLGEN_ISA
