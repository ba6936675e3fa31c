// AVX-512 with the instruction for products of bfloat16. dispatch.cpp puts these kernels into the
// table of avx512.cpp.
#define RLGEN_BF16_DOT

#include "kernels/simd/f32x16_avx512.h"

#define RLGEN_ISA avx512

#include "kernels/attention_bf16_impl.h"
#include "kernels/linear_bf16_impl.h"
#include "kernels/peak_impl.h"

namespace rlgen::kernels::avx512_bf16 {

RoundedKernels bf16_kernels() {
  return {.linear = avx512::linear_bf16,
          .operand = avx512::bf16_operand,
          .operand_bytes = sizeof(uint16_t),
          .attention = avx512::attention_bf16,
          .attention_chunks = avx512::attention_chunks_bf16,
          .peak = avx512::peak_dot,
          .peak_flops = avx512::kPeakDotFlops};
}

}  // namespace rlgen::kernels::avx512_bf16
