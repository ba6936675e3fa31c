// AVX-512 with the instruction for products of bfloat16. dispatch.cpp puts these kernels into the
// table of avx512.cpp.
#define RLGEN_BF16_DOT

#include "kernels/simd/f32x16_avx512.h"

#define RLGEN_ISA avx512

#include "kernels/attention_bf16_impl.h"
#include "kernels/linear_bf16_impl.h"
#include "kernels/peak_impl.h"

namespace rlgen::kernels::avx512_bf16 {

void linear_bf16(const LinearArgs& args, int64_t tile_begin, int64_t tile_end) {
  avx512::linear_bf16(args, tile_begin, tile_end);
}

void bf16_operand(const float* x, int64_t k, float* out) { avx512::bf16_operand(x, k, out); }

void attention_bf16(const AttentionArgs& args, const AttentionSequence& sequence,
                    const AttentionTask& task, float* scratch) {
  avx512::attention_bf16(args, sequence, task, scratch);
}

void attention_chunks_bf16(const AttentionArgs& args, const AttentionSequence& sequence,
                           const AttentionTask& task, ChunkRange chunks, float* scratch,
                           float* sums) {
  avx512::attention_chunks_bf16(args, sequence, task, chunks, scratch, sums);
}

void peak_bf16(int64_t rounds, float* out) { avx512::peak_dot(rounds, out); }

int64_t peak_bf16_flops() { return avx512::kPeakDotFlops; }

}  // namespace rlgen::kernels::avx512_bf16
