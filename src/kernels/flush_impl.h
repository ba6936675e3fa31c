#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/simd/macros.h"

// The processor's flush mode inside a kernel, and on AArch64 what repairs its difference from the
// rule of docs/numbers.md. What is computed in the mode belongs in a function that is not inlined:
// the compiler does not know that arithmetic depends on it.
namespace rlgen::kernels::RLGEN_ISA {

#if defined(__x86_64__)
constexpr uint64_t kFlushBits = 0x8040;

RLGEN_INLINE uint64_t float_control() {
  uint32_t word;
  asm volatile("stmxcsr %0" : "=m"(word)::"memory");
  return word;
}
RLGEN_INLINE void set_float_control(uint64_t word) {
  const uint32_t narrow = uint32_t(word);
  asm volatile("ldmxcsr %0" ::"m"(narrow) : "memory");
}
#elif defined(__aarch64__)
constexpr uint64_t kFlushBits = uint64_t{1} << 24;

RLGEN_INLINE uint64_t float_control() {
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
  return word;
}
RLGEN_INLINE void set_float_control(uint64_t word) {
  asm volatile("msr fpcr, %0\n isb" ::"r"(word) : "memory");
}
#else
constexpr uint64_t kFlushBits = 0;

RLGEN_INLINE uint64_t float_control() { return 0; }
RLGEN_INLINE void set_float_control(uint64_t) {}
#endif

// AArch64 decides before rounding whether a result is subnormal, so it flushes some that x86 rounds
// up to the least normal number. Each flush raises a flag; what raised it is done again, step by
// step.
#if defined(__aarch64__)
RLGEN_INLINE void clear_flags() { asm volatile("msr fpsr, %0" ::"r"(uint64_t{0}) : "memory"); }
RLGEN_INLINE bool underflowed() {
  uint64_t word;
  asm volatile("mrs %0, fpsr" : "=r"(word)::"memory");
  return (word & 8) != 0;
}
#else
RLGEN_INLINE void clear_flags() {}
RLGEN_INLINE bool underflowed() { return false; }
#endif

// products() in flush mode; exactly() without it afterwards, where that made other results.
template <typename Products, typename Exactly>
RLGEN_INLINE void in_flush_mode(Products products, Exactly exactly) {
  const uint64_t mode = float_control();
  clear_flags();
  set_float_control(mode | kFlushBits);
  products();
  set_float_control(mode);
  if (underflowed()) exactly();
}

RLGEN_INLINE float bf16_value(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr float kLeastNormal = 0x1p-126f;

RLGEN_INLINE float flush(float x) {
  return __builtin_fabsf(x) < kLeastNormal ? __builtin_copysignf(0.0f, x) : x;
}

// Without flush mode. Scaled by 2^64 the sum is rounded without an end to its exponents, and tells
// whether 2^-126 is what it was rounded up to.
[[maybe_unused, gnu::noinline]] static float exact_step(float x, float w, float sum) {
  x = flush(x);
  w = flush(w);
  const float result = __builtin_fmaf(x, w, sum);
  if (!(__builtin_fabsf(result) <= kLeastNormal) || result == 0.0f) return result;
  const float scaled = __builtin_fmaf(x * 0x1p64f, w, sum * 0x1p64f);
  return __builtin_fabsf(scaled) < 0x1p-62f ? __builtin_copysignf(0.0f, result) : result;
}

}  // namespace rlgen::kernels::RLGEN_ISA
