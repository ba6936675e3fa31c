#pragma once

#include <cstdint>

// Functions in double for tables and single values, the same bits on every machine: built from
// + - * / sqrt and fma alone (docs/numbers.md). Errors are below 2 units in the last place.
namespace rlgen::kernels {

double pow_of(double base, double exponent);  // base > 0
double log_of(double x);                      // x > 0
double exp_of(double x);
double sin_of(double x);  // |x| up to 2^24
double cos_of(double x);

}  // namespace rlgen::kernels
