#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/exp_impl.h"
#include "kernels/kernel_args.h"

// Kernels over one row: of logits, of weights, of keys and values. Included once by each file of
// isa/; what each function gives is said in kernel_args.h.
namespace rlgen::kernels::RLGEN_ISA {

RLGEN_INLINE int lanes_left(int64_t i, int64_t n) { return n - i < 16 ? int(n - i) : 16; }

// x[i..i+16), `fill` beyond n.
RLGEN_INLINE F32x16 load_filled(const float* x, int64_t i, int64_t n, float fill) {
  if (n - i >= 16) return load(x + i);
  const int left = int(n - i);
  return select(first_lanes(left), load_n(x + i, left), broadcast(fill));
}

RLGEN_INLINE void store_left(F32x16 a, float* x, int64_t i, int64_t n) {
  if (n - i >= 16) {
    store(a, x + i);
  } else {
    store_n(a, x + i, int(n - i));
  }
}

// The largest element; *invalid where a NaN or +inf is among them.
static float row_max(const float* x, int64_t n, bool* invalid) {
  constexpr int kWays = 4;
  const F32x16 infinity = broadcast(__builtin_inff());
  F32x16 best[kWays];
  for (auto& b : best) b = negate(infinity);
  Mask16 finite = first_lanes(16);
  int64_t i = 0;
  for (; i + 16 * kWays <= n; i += 16 * kWays) {
    RLGEN_UNROLL
    for (int way = 0; way < kWays; ++way) {
      const F32x16 v = load(x + i + 16 * way);
      finite = finite & less(v, infinity);
      best[way] = max(v, best[way]);
    }
  }
  for (; i < n; i += 16) {
    const F32x16 v = load_filled(x, i, n, -__builtin_inff());
    finite = finite & less(v, infinity);
    best[0] = max(v, best[0]);
  }
  *invalid = mask_bits(finite) != 0xffffu;
  return reduce_max(max(max(best[0], best[1]), max(best[2], best[3])));
}

static int32_t first_index_of(const float* x, int64_t n, float value) {
  for (int64_t i = 0; i < n; i += 16) {
    const Mask16 hit = equal(load_filled(x, i, n, -__builtin_inff()), broadcast(value));
    const uint32_t bits = mask_bits(hit);
    if (bits != 0) return int32_t(i) + __builtin_ctz(bits);
  }
  return 0;
}

// One block of the grid: f(i) are its elements i .. i + 15, 0 beyond its end.
template <typename F>
RLGEN_INLINE double sum_block(int64_t begin, int64_t end, F f) {
  F64x16 lanes = zero_f64();
  for (int64_t i = begin; i < end; i += 16) lanes = lanes + widen(f(i));
  return reduce_sum(lanes);
}

// All blocks in order.
template <typename F>
RLGEN_INLINE double sum_row(int64_t n, double* blocks, F f) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kSumBlock) {
    const int64_t end = n - begin < kSumBlock ? n : begin + kSumBlock;
    const double block = sum_block(begin, end, f);
    if (blocks != nullptr) blocks[begin / kSumBlock] = block;
    sum += block;
  }
  return sum;
}

static RowSums row_sums(const float* x, int64_t n, float* p, double* blocks) {
  RowSums sums;
  sums.max = row_max(x, n, &sums.invalid);
  if (sums.invalid) return sums;
  sums.argmax = first_index_of(x, n, sums.max);
  // Where every logit is -inf the differences would be NaN.
  const F32x16 shift = broadcast(sums.max == -__builtin_inff() ? 0.0f : sums.max);
  sums.sum = sum_row(n, blocks, [&](int64_t i) {
    const F32x16 e = exp(load_filled(x, i, n, -__builtin_inff()) - shift);
    if (p != nullptr) store_left(e, p, i, n);
    return e;
  });
  return sums;
}

static void row_divide(float* x, int64_t n, float shift, float divisor) {
  const F32x16 s = broadcast(shift);
  const F32x16 d = broadcast(divisor);
  for (int64_t i = 0; i < n; i += 16) {
    store_left((load_filled(x, i, n, 0.0f) - s) / d, x, i, n);
  }
}

// Lanes i .. i + 15 of p that survive, the others 0.
RLGEN_INLINE F32x16 kept(F32x16 v, int64_t i, const Threshold& keep) {
  const F32x16 value = broadcast(keep.value);
  const F32x16 above = select(less(value, v), v, zero());
  const int64_t ties = int64_t(keep.last_tie) + 1 - i;
  if (ties <= 0) return above;
  const Mask16 tie = equal(value, v) & first_lanes(ties < 16 ? int(ties) : 16);
  return select(tie, v, above);
}

static double row_keep(float* p, int64_t n, const Threshold& keep, double* blocks) {
  return sum_row(n, blocks, [&](int64_t i) {
    const F32x16 v = kept(load_filled(p, i, n, 0.0f), i, keep);
    store_left(v, p, i, n);
    return v;
  });
}

// Whether a lane is written is no branch: few processors could foresee it.
static int64_t row_at_least(const float* p, int64_t n, float least, float* out) {
  const F32x16 low = broadcast(least);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += 16) {
    const F32x16 v = load_filled(p, i, n, -1.0f);
    const uint32_t large = mask_bits(less_equal(low, v));
    if (large == 0) continue;
    float lanes[16];
    store(v, lanes);
    for (int lane = 0; lane < 16; ++lane) {
      out[count] = lanes[lane];
      count += large >> lane & 1u;
    }
  }
  return count;
}

RLGEN_INLINE float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void row_histogram(const float* p, int64_t n, const HistogramLevel& level, int32_t* count,
                          double* mass) {
  const uint32_t bin_mask = (1u << (level.prefix_shift - level.shift)) - 1u;
  const F32x16 low = broadcast(float_from_bits(level.prefix << level.prefix_shift));
  const F32x16 high = broadcast(float_from_bits((level.prefix + 1) << level.prefix_shift));
  const auto add = [&](int64_t i) {
    uint32_t bits;
    memcpy(&bits, p + i, sizeof bits);
    const uint32_t bin = (bits >> level.shift) & bin_mask;
    ++count[bin];
    if (mass != nullptr) mass[bin] += double(p[i]);
  };
  int32_t zeros = 0;
  for (int64_t i = 0; i < n; i += 16) {
    const int left = lanes_left(i, n);
    const F32x16 v = load_filled(p, i, n, -1.0f);
    const uint32_t positive = mask_bits(less(zero(), v));
    uint32_t inside = mask_bits(less_equal(low, v) & less(v, high));
    if (positive == 0xffffu && inside == 0xffffu) {
      for (int lane = 0; lane < 16; ++lane) add(i + lane);
      continue;
    }
    zeros += left - __builtin_popcount(positive);
    for (inside &= positive; inside != 0; inside &= inside - 1) add(i + __builtin_ctz(inside));
  }
  // Zeros have no mass and are many after a filter, so they are counted aside.
  if (level.prefix == 0) count[0] += zeros;
}

// `element` of dtype at p becomes x[0 .. n) by the rounding of that type.
RLGEN_INLINE void store_typed(DType dtype, const float* x, int64_t n, uint16_t* p) {
  for (int64_t i = 0; i < n; i += 16) {
    const int left = lanes_left(i, n);
    if (dtype == DType::kBFloat16) {
      store_bf16_n(load_n(x + i, left), p + i, left);
    } else {
      store_f16_n(load_n(x + i, left), p + i, left);
    }
  }
}

static void store_key(const KvLayout& layout, std::byte* head, int32_t slot, const float* key) {
  const int64_t first = int64_t(slot / 16) * layout.head_dim * 16 + slot % 16;
  if (layout.dtype == DType::kFloat32) {
    float* k = reinterpret_cast<float*>(head) + first;
    for (int64_t d = 0; d < layout.head_dim; ++d) k[d * 16] = key[d];
    return;
  }
  uint16_t* k = reinterpret_cast<uint16_t*>(head) + first;
  for (int64_t d = 0; d < layout.head_dim; d += 16) {
    uint16_t row[16];
    const int left = lanes_left(d, layout.head_dim);
    store_typed(layout.dtype, key + d, left, row);
    for (int lane = 0; lane < left; ++lane) k[(d + lane) * 16] = row[lane];
  }
}

static void store_kv(const KvLayout& layout, std::byte* head, int32_t slot, const float* key,
                     const float* value) {
  if (key != nullptr) store_key(layout, head, slot, key);
  if (value == nullptr || layout.values_in_keys) return;
  std::byte* values = head + layout.value_offset();
  const int64_t first = int64_t(slot) * layout.value_dim;
  if (layout.dtype == DType::kFloat32) {
    memcpy(reinterpret_cast<float*>(values) + first, value,
           size_t(layout.value_dim) * sizeof(float));
  } else {
    store_typed(layout.dtype, value, layout.value_dim, reinterpret_cast<uint16_t*>(values) + first);
  }
}

}  // namespace rlgen::kernels::RLGEN_ISA
