#pragma once

#include <stdint.h>

#include "kernels/kv_layout.h"
#include "kernels/packing.h"

// What the code of an instruction set takes and gives. That code sees no other header of C++ than
// these, so that no function is compiled for two instruction sets under one name.
namespace rlgen::kernels {

enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmx, kNeon };

// Y[m, n] = X[m, :] . W[n, :] (+ bias[n]). One accumulator per output element walks k from 0 upward
// with fused multiply-adds starting at 0; the bias is added last. X, Y are row-major float32.
struct LinearArgs {
  const float* x = nullptr;  // [m, k], row stride ldx elements
  int64_t ldx = 0;
  PackedMatrix w;
  const float* bias = nullptr;  // [n] or null
  float* y = nullptr;           // [m, n], row stride ldy elements
  int64_t ldy = 0;
  int64_t m = 0;
};

// The query rows of one sequence in a step: rows [first_row, first_row + rows) of the batch stand
// at positions first_position, first_position + 1, ... and see the keys up to themselves.
struct AttentionSequence {
  const int32_t* block_table = nullptr;  // ids of the blocks that hold keys 0, 1, ...
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
};

// out = softmax(q . k * scale) v per head; query head h reads KV head h / (heads / kv_heads).
// Definition in docs/numbers.md: keys in tiles of 16 and chunks of 256 counted from key 0, chunks
// merged in order, a sink after the last; the result for a row does not depend on the other rows.
struct AttentionArgs {
  const float* q = nullptr;  // [rows, heads, head_dim], row stride ldq elements
  int64_t ldq = 0;
  float* out = nullptr;  // [rows, heads, value_dim], row stride ldo elements
  int64_t ldo = 0;
  int32_t heads = 0;
  KvCacheView kv;
  int32_t layer = 0;
  float scale = 1.0f;  // above 0
  int64_t window = 0;  // a row sees its last `window` keys, itself included; 0: all
  // [heads]: a score of each head that takes part in the softmax and has no value; null: none.
  const float* sinks = nullptr;
};

// One unit of attention work: query rows [row_begin, row_end) of a sequence (counted within it)
// and one KV head, of whose query heads `heads` from the first_head-th on.
struct AttentionTask {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int32_t first_head = 0;
  int32_t heads = 0;  // 0: all
  // What the thread will probably attend to after this: its first keys are fetched. Null: not
  // known.
  const AttentionSequence* then = nullptr;
  int32_t then_kv_head = 0;
};

// Chunks [begin, end) of `all` chunks of kAttentionChunkKeys keys, counted from key 0.
struct ChunkRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t all = 0;
};

inline constexpr int64_t kAttentionChunkKeys = 256;

// Multiply-adds that one core with AVX-512 does in a nanosecond.
inline constexpr int64_t kProductsPerNanosecond = 100;

// Elements that a rounded row of k has room for: whole blocks of 32.
[[gnu::always_inline]] inline constexpr int64_t rounded_length(int64_t k) {
  return (k + 31) / 32 * 32;
}

// Sums over a row run on one grid: blocks of kSumBlock elements from index 0, in a block 16 lanes
// of doubles (lane i % 16), the lanes by one tree, the blocks' sums in order (docs/numbers.md).
inline constexpr int64_t kSumBlock = 1024;

// Sums over a row of logits.
struct RowSums {
  float max = 0.0f;      // largest element; -inf when all are -inf
  int32_t argmax = 0;    // its lowest index
  double sum = 0.0;      // sum of exp(x[i] - max)
  bool invalid = false;  // a NaN or +inf was met; the rest is meaningless then
};

// Which elements of a row of weights p (from row_sums) survive: p[i] > value, or p[i] == value and
// i <= last_tie. The default lets all survive.
struct Threshold {
  float value = 0.0f;
  int32_t last_tie = INT32_MAX;
};

// Elements p >= 0 whose bits >> prefix_shift equal `prefix` go to bin (bits >> shift) without its
// prefix; there are 2^(prefix_shift - shift) bins.
struct HistogramLevel {
  uint32_t prefix = 0;
  int32_t prefix_shift = 0;
  int32_t shift = 0;
};

// The products of a profile that rounds operands to bfloat16 (docs/numbers.md).
struct RoundedKernels {
  // KernelTable::linear with the profile's order of sums, in FloatMode::kFlush; w is bfloat16. Rows
  // of x are made by `operand`; ldx counts floats of those.
  void (*linear)(const LinearArgs& args, int64_t tile_begin, int64_t tile_end);
  // Rounds a row of k elements to bfloat16 into `out`, in the instruction set's own layout, which
  // takes operand_bytes for each of rounded_length(k) elements.
  void (*operand)(const float* x, int64_t k, float* out);
  int64_t operand_bytes = sizeof(float);
  // KernelTable::attention and attention_chunks. Keys and values are bfloat16, each with memory of
  // its own.
  void (*attention)(const AttentionArgs& args, const AttentionSequence& sequence,
                    const AttentionTask& task, float* scratch);
  void (*attention_chunks)(const AttentionArgs& args, const AttentionSequence& sequence,
                           const AttentionTask& task, ChunkRange chunks, float* scratch,
                           float* sums);
  // KernelTable::peak_fma with the instruction that `linear` runs on.
  void (*peak)(int64_t rounds, float* out);
  int64_t peak_flops = 0;
  // Multiply-adds of many rows that a thread does in a nanosecond, roughly: for cutting work.
  int64_t products_per_nanosecond = kProductsPerNanosecond;
};

// The entry points of one instruction set. Every one gives the same bits on every ISA. Threads:
// all are reentrant. Callers set the float modes (base/float_mode.h) of each thread beforehand.
struct KernelTable {
  Isa isa = Isa::kScalar;

  // Column tiles [tile_begin, tile_end) of 16 of y; there are (n + 15) / 16.
  void (*linear)(const LinearArgs& args, int64_t tile_begin, int64_t tile_end);
  // The products of Profile::kBFloat16: for each pair of k the odd element's multiply-add, then the
  // even one's.
  RoundedKernels bf16;
  // Those of Profile::kBFloat16Amx: for each 32 of k the even elements' multiply-adds from zero and
  // the odd ones', their sum added to the sum so far.
  RoundedKernels amx;
  // out[k] = row `row` of w, as float32.
  void (*gather_row)(const PackedMatrix& w, int64_t row, float* out);

  // out[i] = x[i] * r * weight[i], r = 1 / sqrt(sum(x^2) / n + eps).
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);
  void (*add)(float* x, const float* y, int64_t n);                      // x += y
  void (*add_scaled)(float* x, const float* y, float scale, int64_t n);  // x = fma(y, scale, x)
  // x = max(-limit, min(limit, x)); a NaN stays one.
  void (*clip)(float* x, float limit, int64_t n);
  // out = silu(gate) * up, silu(v) = v / (1 + exp(-v)).
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  // out = gelu_tanh(gate) * up.
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t n, float* out);
  // out = (u + 1) * (g / (1 + exp(-alpha * g))), g = min(limit, gate), u = up within +-limit.
  void (*clamped_swiglu)(const float* gate, const float* up, int64_t n, float alpha, float limit,
                         float* out);

  // cos[i], sin[i] = cos and sin of float32(position * inv_freq[i]), times scale.
  void (*rope_angles)(int64_t position, const float* inv_freq, int64_t n, float scale, float* cos,
                      float* sin);
  // Rotates pairs (i, i + rotary/2) of the first 2 * half elements of x in place.
  void (*rope)(float* x, int64_t half, const float* cos, const float* sin);

  // Writes one key row and one value row of one KV head at slot `slot` of its block memory. A null
  // one is left as it is; the value is not read where values are in the keys.
  void (*store_kv)(const KvLayout& layout, std::byte* head, int32_t slot, const float* key,
                   const float* value);
  // Scratch floats that one attention call needs.
  int64_t (*attention_scratch)(const AttentionArgs& args, const AttentionTask& task);
  void (*attention)(const AttentionArgs& args, const AttentionSequence& sequence,
                    const AttentionTask& task, float* scratch);
  // The same in two parts, so that several threads can share a long sequence: first the sums of
  // each chunk alone, then their merging in order. `sums` has attention_sums(args, task) floats for
  // each chunk.
  int64_t (*attention_sums)(const AttentionArgs& args, const AttentionTask& task);
  void (*attention_chunks)(const AttentionArgs& args, const AttentionSequence& sequence,
                           const AttentionTask& task, ChunkRange chunks, float* scratch,
                           float* sums);
  void (*attention_merge)(const AttentionArgs& args, const AttentionSequence& sequence,
                          const AttentionTask& task, ChunkRange chunks, float* scratch,
                          const float* sums);

  // Sums of a row of n >= 1 logits; -inf means masked. With `p` not null p[i] = exp(x[i] - max), 0
  // where masked; with `blocks` not null it gets the sum of each block of the grid.
  RowSums (*row_sums)(const float* x, int64_t n, float* p, double* blocks);
  // x[i] = (x[i] - shift) / divisor: a subtraction and a true division.
  void (*row_divide)(float* x, int64_t n, float shift, float divisor);
  // Sets every p[i] that does not survive to 0; returns the sum of the rest and, in `blocks`, that
  // of each block of the grid.
  double (*row_keep)(float* p, int64_t n, const Threshold& keep, double* blocks);
  // Writes the elements of at least `least` > 0 to `out`, in order, and returns how many there are;
  // `out` has room for n + 1 floats.
  int64_t (*row_at_least)(const float* p, int64_t n, float least, float* out);
  // count[bin] += 1 and, with `mass` not null, mass[bin] += p[i], in index order.
  void (*row_histogram)(const float* p, int64_t n, const HistogramLevel& level, int32_t* count,
                        double* mass);

  // For measuring the machine: peak_fma does rounds * peak_flops floating-point operations in
  // registers; peak_read adds up n floats, n a multiple of 64. Both write 16 floats to `out`.
  void (*peak_fma)(int64_t rounds, float* out);
  int64_t peak_flops = 0;
  void (*peak_read)(const float* x, int64_t n, float* out);
};

}  // namespace rlgen::kernels
