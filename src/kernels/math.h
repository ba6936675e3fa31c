#pragma once

// Functions in double for tables and single values, the same bits on every machine: built from
// + - * / and fma alone (docs/numbers.md). Errors are below 1 unit in the last place, 2 for
// subnormal results.
namespace rlgen::kernels {

// Zero and infinity beyond the range of double; NaN for NaN.
double exp_of(double x);

// x >= 0: -inf for 0, infinity for infinity. NaN for a negative x or NaN.
double log_of(double x);

// base > 0 and finite, exponent finite; NaN otherwise.
double pow_of(double base, double exponent);

// |x| up to 2^24 (NaN beyond); x a float32 value, whose distance from a multiple of pi/2 three
// parts of pi/2 resolve.
double sin_of(double x);
double cos_of(double x);

}  // namespace rlgen::kernels
