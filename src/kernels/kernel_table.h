#pragma once

#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "kernels/kernel_args.h"

namespace rlgen::kernels {

// "scalar", "avx2", "avx512", "avx512_bf16", "amx", "neon".
std::string_view isa_name(Isa isa);

// The instruction sets that this binary has and a machine with `features` runs (by default this
// one), scalar first, best last.
std::vector<Isa> runnable_isas(const CpuFeatures& features);
std::vector<Isa> available_isas();

// "auto" is the best one. kInvalidArgument for an unknown name, kUnimplemented for one that the
// machine or the binary lacks, listing those there are.
StatusOr<const KernelTable*> select_kernels(std::string_view isa);
StatusOr<const KernelTable*> select_kernels(std::string_view isa, const CpuFeatures& features);

// The table of an ISA out of available_isas(), which is never null.
const KernelTable* kernel_table(Isa isa);

}  // namespace rlgen::kernels
