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
#elif defined(__aarch64__)
// No traps, nearest, IEEE NaNs and half precision; then FZ.
constexpr std::uint64_t kGradualWord = 0;
constexpr std::uint64_t kFlushWord = std::uint64_t{1} << 24;
#else
constexpr std::uint64_t kGradualWord = FE_TONEAREST;
constexpr std::uint64_t kFlushWord = FE_TONEAREST;
#endif

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

ScopedFloatMode::ScopedFloatMode(FloatMode mode) : saved_(float_control_word()) {
  set_float_control_word(mode == FloatMode::kFlush ? kFlushWord : kGradualWord);
}

ScopedFloatMode::~ScopedFloatMode() { set_float_control_word(saved_); }

}  // namespace rlgen
