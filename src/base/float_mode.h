#pragma once

#include <cstdint>

namespace rlgen {

// How the calling thread's floating-point unit treats results.
enum class FloatMode {
  kGradual,  // round to nearest even, subnormals kept: what every promise about bits rests on
  kFlush,    // round to nearest even, subnormal operands and results are zero
};

// Puts the calling thread into `mode`, with every floating-point exception masked, and puts back
// what it found when it dies; on x86-64 the rounding of the older unit too, which the C library's
// readers of numbers go by. Hosts change these modes behind our back, so each engine thread
// holds one of these while it computes. The compiler does not know that arithmetic depends on it:
// the arithmetic belongs in a function that is called while the object lives and is not inlined
// into the caller. kFlush is exact on x86-64 and aarch64; elsewhere subnormals stay.
class ScopedFloatMode {
 public:
  explicit ScopedFloatMode(FloatMode mode);
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;
  ~ScopedFloatMode();

 private:
  std::uint64_t saved_;
  std::uint16_t saved_x87_;
};

// `value` as the nearest float, ties to even, subnormals kept, in whatever mode the caller's thread
// is. For numbers that decide bits and come from outside.
float nearest_float(double value);

// The raw control word of the calling thread (MXCSR, FPCR), for tests.
std::uint64_t float_control_word();
void set_float_control_word(std::uint64_t word);
// Its bits that are modes; the others of MXCSR are sticky exception flags.
inline constexpr std::uint64_t kFloatModeBits = ~std::uint64_t{0x3f};

}  // namespace rlgen
