#pragma once

// The end of every file of isa/: with RLGEN_ISA as the namespace of one vector type, brings in the
// kernels and lists them. A kernel is a static function of namespace rlgen::kernels::RLGEN_ISA.
#include "kernels/attention_amx_impl.h"
#include "kernels/attention_bf16_impl.h"
#include "kernels/attention_impl.h"
#include "kernels/elementwise_impl.h"
#include "kernels/kernel_args.h"
#include "kernels/linear_amx_impl.h"
#include "kernels/linear_bf16_impl.h"
#include "kernels/linear_impl.h"
#include "kernels/peak_impl.h"
#include "kernels/row_impl.h"
#include "kernels/shared.h"

namespace rlgen::kernels::RLGEN_ISA {

const KernelTable* table() {
  static constexpr KernelTable kTable = {
      .isa = Isa::RLGEN_ISA_ENUM,
      .linear = linear,
      .bf16 = {.linear = linear_bf16,
               .operand = bf16_operand,
               .attention = attention_bf16,
               .attention_chunks = attention_chunks_bf16,
               .peak = peak_fma,
               .peak_flops = kPeakFlops},
      .amx = {.linear = linear_amx,
              .operand = amx_operand,
              .attention = attend_task<AmxProducts>,
              .attention_chunks = sum_task<AmxProducts>,
              .peak = peak_fma,
              .peak_flops = kPeakFlops},
      .gather_row = shared::gather_row,
      .rms_norm = rms_norm,
      .add = add,
      .add_scaled = add_scaled,
      .clip = clip,
      .silu_mul = silu_mul,
      .gelu_tanh_mul = gelu_tanh_mul,
      .clamped_swiglu = clamped_swiglu,
      .rope_angles = shared::rope_angles,
      .rope = rope,
      .store_kv = store_kv,
      .attention_scratch = attention_scratch,
      .attention = attention,
      .attention_sums = attention_sums,
      .attention_chunks = attention_chunks,
      .attention_merge = attention_merge,
      .row_sums = row_sums,
      .row_divide = row_divide,
      .row_keep = row_keep,
      .row_at_least = row_at_least,
      .row_histogram = row_histogram,
      .peak_fma = peak_fma,
      .peak_flops = kPeakFlops,
      .peak_read = peak_read,
  };
  return &kTable;
}

}  // namespace rlgen::kernels::RLGEN_ISA
