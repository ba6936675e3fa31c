#pragma once

#include <stdint.h>

#include "kernels/exp_impl.h"
#include "kernels/simd/macros.h"

namespace rlgen::kernels::RLGEN_ISA {

// f(i, lanes) for each group of 16 elements; the last may have fewer lanes.
template <typename F>
RLGEN_INLINE void for_each_group(int64_t n, F f) {
  for (int64_t i = 0; i < n; i += 16) f(i, n - i < 16 ? int(n - i) : 16);
}

RLGEN_INLINE F32x16 load_group(const float* p, int lanes) {
  return lanes == 16 ? load(p) : load_n(p, lanes);
}
RLGEN_INLINE void store_group(F32x16 a, float* p, int lanes) {
  if (lanes == 16) {
    store(a, p);
  } else {
    store_n(a, p, lanes);
  }
}

[[maybe_unused]] static void rms_norm(const float* x, const float* weight, int64_t n, float eps,
                                      float* out) {
  F32x16 squares = zero();
  for_each_group(n, [&](int64_t i, int lanes) {
    const F32x16 v = load_group(x + i, lanes);
    squares = fma(v, v, squares);
  });
  const float mean = reduce_sum(squares) / float(n);
  const F32x16 r = broadcast(1.0f) / sqrt(broadcast(mean + eps));
  for_each_group(n, [&](int64_t i, int lanes) {
    const F32x16 v = load_group(x + i, lanes);
    store_group(v * r * load_group(weight + i, lanes), out + i, lanes);
  });
}

[[maybe_unused]] static void add(float* x, const float* y, int64_t n) {
  for_each_group(n, [&](int64_t i, int lanes) {
    store_group(load_group(x + i, lanes) + load_group(y + i, lanes), x + i, lanes);
  });
}

[[maybe_unused]] static void add_scaled(float* x, const float* y, float scale, int64_t n) {
  const F32x16 factor = broadcast(scale);
  for_each_group(n, [&](int64_t i, int lanes) {
    store_group(fma(load_group(y + i, lanes), factor, load_group(x + i, lanes)), x + i, lanes);
  });
}

// Of two that do not compare, minimum and maximum take the second.
[[maybe_unused]] static void clip(float* x, float limit, int64_t n) {
  const F32x16 high = broadcast(limit);
  const F32x16 low = broadcast(-limit);
  for_each_group(n, [&](int64_t i, int lanes) {
    store_group(max(low, min(high, load_group(x + i, lanes))), x + i, lanes);
  });
}

RLGEN_INLINE F32x16 silu(F32x16 v) { return v / (broadcast(1.0f) + exp(negate(v))); }

// 0.5 v (1 + tanh(u)) with u = sqrt(2/pi) (v + 0.044715 v^3) is v / (1 + exp(-2u)), which loses
// nothing where the tanh is near -1.
RLGEN_INLINE F32x16 gelu_tanh(F32x16 v) {
  const F32x16 cubic = fma(v * v, broadcast(0.044715f), broadcast(1.0f)) * v;
  return v / (broadcast(1.0f) + exp(cubic * broadcast(-0x1.988454p+0f)));
}

[[maybe_unused]] static void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for_each_group(n, [&](int64_t i, int lanes) {
    const F32x16 activated = silu(load_group(gate + i, lanes));
    store_group(activated * load_group(up + i, lanes), out + i, lanes);
  });
}

[[maybe_unused]] static void gelu_tanh_mul(const float* gate, const float* up, int64_t n,
                                           float* out) {
  for_each_group(n, [&](int64_t i, int lanes) {
    const F32x16 activated = gelu_tanh(load_group(gate + i, lanes));
    store_group(activated * load_group(up + i, lanes), out + i, lanes);
  });
}

// A NaN stays one, as in clip.
[[maybe_unused]] static void clamped_swiglu(const float* gate, const float* up, int64_t n,
                                            float alpha, float limit, float* out) {
  const F32x16 one = broadcast(1.0f);
  const F32x16 high = broadcast(limit);
  const F32x16 low = broadcast(-limit);
  const F32x16 slope = broadcast(-alpha);
  for_each_group(n, [&](int64_t i, int lanes) {
    const F32x16 g = min(high, load_group(gate + i, lanes));
    const F32x16 u = max(low, min(high, load_group(up + i, lanes)));
    const F32x16 glu = g / (one + exp(g * slope));
    store_group((u + one) * glu, out + i, lanes);
  });
}

[[maybe_unused]] static void rope(float* x, int64_t half, const float* cos, const float* sin) {
  for_each_group(half, [&](int64_t i, int lanes) {
    const F32x16 a = load_group(x + i, lanes);
    const F32x16 b = load_group(x + half + i, lanes);
    const F32x16 c = load_group(cos + i, lanes);
    const F32x16 s = load_group(sin + i, lanes);
    const F32x16 first = fma(negate(b), s, a * c);
    const F32x16 second = fma(a, s, b * c);
    store_group(first, x + i, lanes);
    store_group(second, x + half + i, lanes);
  });
}

}  // namespace rlgen::kernels::RLGEN_ISA
