#include "base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace rlgen {
namespace {

#if defined(__x86_64__)
// All exceptions masked; then flush-to-zero and denormals-are-zero.
constexpr std::uint64_t kGradualWord = 0x1f80;
constexpr std::uint64_t kFlushWord = kGradualWord | 0x8040;

std::uint16_t x87_control_word() {
  std::uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}

// Leaves a word alone that is there already: loading one is slow.
void set_x87_control_word(std::uint16_t word) {
  if (word != x87_control_word()) asm volatile("fldcw %0" : : "m"(word));
}
#elif defined(__aarch64__)
// No traps, nearest, IEEE NaNs and half precision; then FZ.
constexpr std::uint64_t kGradualWord = 0;
constexpr std::uint64_t kFlushWord = std::uint64_t{1} << 24;
#else
constexpr std::uint64_t kGradualWord = FE_TONEAREST;
constexpr std::uint64_t kFlushWord = FE_TONEAREST;
#endif

#if !defined(__x86_64__)
std::uint16_t x87_control_word() { return 0; }
void set_x87_control_word(std::uint16_t) {}
#endif

constexpr std::uint16_t kX87Rounding = 0x0c00;  // 0: to nearest even

}  // namespace

std::uint64_t float_control_word() {
#if defined(__x86_64__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  std::uint64_t word = 0;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return static_cast<std::uint64_t>(std::fegetround());
#endif
}

void set_float_control_word(std::uint64_t word) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(word));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(word));
#else
  std::fesetround(static_cast<int>(word));
#endif
}

ScopedFloatMode::ScopedFloatMode(FloatMode mode)
    : saved_(float_control_word()), saved_x87_(x87_control_word()) {
  set_float_control_word(mode == FloatMode::kFlush ? kFlushWord : kGradualWord);
  set_x87_control_word(saved_x87_ & static_cast<std::uint16_t>(~kX87Rounding));
}

ScopedFloatMode::~ScopedFloatMode() {
  set_float_control_word(saved_);
  set_x87_control_word(saved_x87_);
}

float nearest_float(double value) {
  // Volatile: the conversion lies between two accesses that stay inside the scope.
  const volatile double given = value;
  volatile float nearest = 0.0f;
  {
    const ScopedFloatMode mode(FloatMode::kGradual);
    nearest = static_cast<float>(given);
  }
  return nearest;
}

}  // namespace rlgen
