#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/flush_impl.h"
#include "kernels/linear_impl.h"

// The matrix product of the bfloat16 profile. Its arithmetic is that of the instruction vdpbf16ps:
// for each pair of k one fused multiply-add of the odd element, then one of the even element;
// subnormal operands are zero, and a result that is subnormal after rounding becomes zero. Callers
// set FloatMode::kFlush, which is just that on x86. Numbers: docs/numbers.md.
namespace rlgen::kernels::RLGEN_ISA {

// Rounds x[0, k) to bfloat16, nearest even, as float32; a last odd element gets a zero beside it.
[[maybe_unused]] static void round_row(const float* x, int64_t k, float* out) {
  uint16_t half[16];
  for (int64_t i = 0; i < k; i += 16) {
    const int n = k - i < 16 ? int(k - i) : 16;
    store_bf16(load_n(x + i, n), half);
    store_n(load_bf16(half), out + i, n);
  }
  if (k % 2 != 0) out[k] = 0.0f;
}

#if defined(RLGEN_BF16_DOT)

// Rows of x are pairs of bfloat16, as the weights are.
[[maybe_unused]] static void bf16_operand(const float* x, int64_t k, float* out) {
  auto* const pairs = reinterpret_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) store_bf16_fast(load(x + i), pairs + i);
  if (i < k) store_bf16_n(load_n(x + i, int(k - i)), pairs + i, int(k - i));
  if (k % 2 != 0) pairs[k] = 0;
}

struct Bf16ProfileWeights : HalfWeights {
  using Cached = Bf16ProfileWeights;
  using Pairs = Bf16Pairs;
  static constexpr bool kWidens = false;
  static constexpr bool kDot = true;
  RLGEN_INLINE Pairs pairs(const Element* p) { return load_pairs(p); }
  RLGEN_INLINE Pairs broadcast(const float* x) { return broadcast_pair(x); }
  RLGEN_INLINE F32x16 dot(Pairs x, Pairs w, F32x16 sum) { return add_dot(x, w, sum); }
};

#else

// Rows of x are rounded values, the two of each pair swapped, so that k rises through odd, even.
[[maybe_unused]] static void bf16_operand(const float* x, int64_t k, float* out) {
  round_row(x, k, out);
  for (int64_t i = 0; i < k; i += 2) {
    const float even = out[i];
    out[i] = out[i + 1];
    out[i + 1] = even;
  }
}

struct Bf16ProfileWeights : HalfWeights {
  RLGEN_INLINE F32x16 even(const Element* p) { return load_bf16_pair(p).odd; }
  RLGEN_INLINE F32x16 odd(const Element* p) { return load_bf16_pair(p).even; }
};

#endif

#if defined(__aarch64__)

[[gnu::noinline]] static void exact_tile(const LinearArgs& a, int64_t tile) {
  const auto* w =
      reinterpret_cast<const uint16_t*>(a.w.data) + tile * Bf16ProfileWeights::tile_stride(a.w.k);
  const int lanes = lanes_of_tile(a.w.n - tile * 16, 0);
  for (int64_t row = 0; row < a.m; ++row) {
    const float* x = a.x + row * a.ldx;
    float* y = a.y + row * a.ldy + tile * 16;
    for (int lane = 0; lane < lanes; ++lane) {
      float sum = 0.0f;
      for (int64_t k = 0; k < a.w.k; k += 2) {
        const uint16_t* pair = w + k * 16 + lane * 2;
        sum = exact_step(x[k], bf16_value(pair[1]), sum);
        sum = exact_step(x[k + 1], bf16_value(pair[0]), sum);
      }
      y[lane] = a.bias == nullptr ? sum : flush(sum + flush(a.bias[tile * 16 + lane]));
    }
  }
}

static void linear_of_bf16_profile(const LinearArgs& a, int64_t tile_begin, int64_t tile_end) {
  for (int64_t group = tile_begin; group < tile_end; group += kGroupTiles) {
    const int64_t end = group + kGroupTiles < tile_end ? group + kGroupTiles : tile_end;
    clear_flags();
    linear_of<Bf16ProfileWeights>(a, group, end);
    if (!underflowed()) continue;
    const uint64_t mode = float_control();
    set_float_control(0);
    for (int64_t tile = group; tile < end; ++tile) exact_tile(a, tile);
    set_float_control(mode);
  }
}

#else

RLGEN_INLINE void linear_of_bf16_profile(const LinearArgs& a, int64_t tile_begin,
                                         int64_t tile_end) {
  linear_of<Bf16ProfileWeights>(a, tile_begin, tile_end);
}

#endif

[[maybe_unused]] static void linear_bf16(const LinearArgs& args, int64_t tile_begin,
                                         int64_t tile_end) {
  LinearArgs whole_pairs = args;
  whole_pairs.w.k = (args.w.k + 1) / 2 * 2;
  linear_of_bf16_profile(whole_pairs, tile_begin, tile_end);
}

}  // namespace rlgen::kernels::RLGEN_ISA
