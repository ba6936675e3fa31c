#pragma once

#include "kernels/exp_impl.h"
#include "kernels/simd/probe/probe.h"

namespace rlgen::kernels::RLGEN_ISA {

static void probe_unary(const float* x, float* out) {
  const F32x16 v = load(x);
  store(negate(v), out);
  store(sqrt(v), out + 16);
  store(exp(v), out + 32);
  store(v + broadcast(x[0]), out + 48);
  store(exp_of_difference(v), out + 64);
}

static void probe_binary(const float* a, const float* b, float* out) {
  const F32x16 x = load(a);
  const F32x16 y = load(b);
  store(x + y, out);
  store(x - y, out + 16);
  store(x * y, out + 32);
  store(x / y, out + 48);
  store(max(x, y), out + 64);
  store(min(x, y), out + 80);
}

static void probe_fma(const float* a, const float* b, const float* c, float* out) {
  store(fma(load(a), load(b), load(c)), out);
}

static void probe_compare(const float* a, const float* b, int n, uint32_t* out) {
  const F32x16 x = load(a);
  const F32x16 y = load(b);
  out[0] = mask_bits(less(x, y));
  out[1] = mask_bits(less_equal(x, y));
  out[2] = mask_bits(equal(x, y));
  out[3] = mask_bits(first_lanes(n));
  out[4] = mask_bits(less(x, y) & first_lanes(n));
}

static void probe_select_less(const float* a, const float* b, float* out) {
  store(select(less(load(a), load(b)), load(a), load(b)), out);
}

static void probe_scale_pow2(const float* a, const float* t, float* out) {
  store(scale_pow2(load(a), load(t)), out);
}

static void probe_load_n(const float* p, int n, float* out) { store(load_n(p, n), out); }
static void probe_store_n(const float* x, float* p, int n) { store_n(load(x), p, n); }

static void probe_load_16bit(const uint16_t* p, float* bf16, float* f16) {
  store(load_bf16(p), bf16);
  store(load_f16(p), f16);
}
static void probe_load_16bit_n(const uint16_t* p, int n, float* bf16, float* f16) {
  store(load_bf16_n(p, n), bf16);
  store(load_f16_n(p, n), f16);
}
static void probe_store_16bit(const float* x, uint16_t* bf16, uint16_t* f16) {
  store_bf16(load(x), bf16);
  store_f16(load(x), f16);
}
static void probe_store_16bit_n(const float* x, int n, uint16_t* bf16, uint16_t* f16) {
  store_bf16_n(load(x), bf16, n);
  store_f16_n(load(x), f16, n);
}
static void probe_bf16_pair(const uint16_t* p, float* even, float* odd) {
  const F32Pair pair = load_bf16_pair(p);
  store(pair.even, even);
  store(pair.odd, odd);
}
static void probe_f16_pair(const uint16_t* p, float* even, float* odd) {
  const F32Pair pair = load_f16_pair(p);
  store(pair.even, even);
  store(pair.odd, odd);
}

static float probe_reduce_sum(const float* x) { return reduce_sum(load(x)); }
static float probe_reduce_max(const float* x) { return reduce_max(load(x)); }
static double probe_reduce_sum_f64(const float* a, const float* b) {
  return reduce_sum(zero_f64() + widen(load(a)) + widen(load(b)));
}

const VectorProbe* probe() {
  static constexpr VectorProbe kProbe = {
      .isa = RLGEN_ISA_NAME,
      .unary = probe_unary,
      .binary = probe_binary,
      .fma = probe_fma,
      .compare = probe_compare,
      .select_less = probe_select_less,
      .scale_pow2 = probe_scale_pow2,
      .load_n = probe_load_n,
      .store_n = probe_store_n,
      .load_16bit = probe_load_16bit,
      .load_16bit_n = probe_load_16bit_n,
      .store_16bit = probe_store_16bit,
      .store_16bit_n = probe_store_16bit_n,
      .load_bf16_pair = probe_bf16_pair,
      .load_f16_pair = probe_f16_pair,
      .reduce_sum = probe_reduce_sum,
      .reduce_max = probe_reduce_max,
      .reduce_sum_f64 = probe_reduce_sum_f64,
  };
  return &kProbe;
}

}  // namespace rlgen::kernels::RLGEN_ISA
