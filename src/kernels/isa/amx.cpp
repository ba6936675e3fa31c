// The tile registers of AMX, beside AVX-512. dispatch.cpp puts these kernels into the table of
// avx512.cpp.
#define RLGEN_BF16_DOT

#include "kernels/simd/f32x16_avx512.h"

#define RLGEN_ISA avx512

#include "kernels/attention_tmul_impl.h"
#include "kernels/linear_tmul_impl.h"
#include "kernels/peak_tmul_impl.h"

namespace rlgen::kernels::amx {

void put_kernels(KernelTable* table) {
  table->isa = Isa::kAmx;
  table->attention_scratch = avx512::attention_scratch_amx;
  table->amx = {.linear = avx512::linear_amx,
                .operand = avx512::amx_operand,
                .operand_bytes = sizeof(uint16_t),
                .attention = avx512::attention_amx,
                .attention_chunks = avx512::attention_chunks_amx,
                .peak = avx512::peak_tiles,
                .peak_flops = avx512::kPeakTileFlops,
                .products_per_nanosecond = 1000};
}

}  // namespace rlgen::kernels::amx
