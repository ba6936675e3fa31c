#pragma once

#include <stdint.h>

// Every function of a vector type over arrays of 16, so that one test can drive the types of all
// instruction sets.
namespace rlgen::kernels {

inline constexpr int kProbeUnary = 5;
inline constexpr int kProbeBinary = 6;

struct VectorProbe {
  const char* isa;
  // [kProbeUnary][16]: negate, sqrt, exp, x + broadcast(x[0]), exp_of_difference
  void (*unary)(const float* x, float* out);
  // [kProbeBinary][16]: + - * / max min
  void (*binary)(const float* a, const float* b, float* out);
  void (*fma)(const float* a, const float* b, const float* c, float* out);
  // The bits of: less, less_equal, equal, first_lanes(n), less & first_lanes(n)
  void (*compare)(const float* a, const float* b, int n, uint32_t* out);
  void (*select_less)(const float* a, const float* b, float* out);  // a < b ? a : b
  void (*scale_pow2)(const float* a, const float* t, float* out);
  void (*load_n)(const float* p, int n, float* out);
  void (*store_n)(const float* x, float* p, int n);

  void (*load_16bit)(const uint16_t* p, float* bf16, float* f16);
  void (*load_16bit_n)(const uint16_t* p, int n, float* bf16, float* f16);
  void (*store_16bit)(const float* x, uint16_t* bf16, uint16_t* f16);
  void (*store_16bit_n)(const float* x, int n, uint16_t* bf16, uint16_t* f16);
  // Of 32 elements: even and odd ones.
  void (*load_bf16_pair)(const uint16_t* p, float* even, float* odd);
  void (*load_f16_pair)(const uint16_t* p, float* even, float* odd);

  float (*reduce_sum)(const float* x);
  float (*reduce_max)(const float* x);
  double (*reduce_sum_f64)(const float* a, const float* b);  // of widen(a) + widen(b) + zero
};

}  // namespace rlgen::kernels
