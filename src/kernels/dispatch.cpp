#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "base/cpu.h"
#include "kernels/kernel_table.h"

namespace rlgen::kernels {

namespace scalar {
const KernelTable* table();
}
namespace avx2 {
const KernelTable* table();
}
namespace avx512 {
const KernelTable* table();
}
namespace avx512_bf16 {
RoundedKernels bf16_kernels();
}
namespace amx {
void put_kernels(KernelTable* table);
}
namespace neon {
const KernelTable* table();
}

namespace {

constexpr Isa kAllIsas[] = {Isa::kScalar,     Isa::kAvx2, Isa::kAvx512,
                            Isa::kAvx512Bf16, Isa::kAmx,  Isa::kNeon};

#if defined(RLGEN_HAVE_AVX512_BF16)
const KernelTable* avx512_bf16_table() {
  static const KernelTable kTable = [] {
    KernelTable table = *avx512::table();
    table.isa = Isa::kAvx512Bf16;
    table.bf16 = avx512_bf16::bf16_kernels();
    return table;
  }();
  return &kTable;
}
#endif

#if defined(RLGEN_HAVE_AMX)
// Processors with AMX do the products of the bfloat16 profile faster with multiply-adds: they start
// its own instruction in every other cycle only.
const KernelTable* amx_table() {
  static const KernelTable kTable = [] {
    KernelTable table = *avx512::table();
    amx::put_kernels(&table);
    return table;
  }();
  return &kTable;
}
#endif

// Null for one that the binary lacks.
const KernelTable* built_table(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return scalar::table();
#if defined(RLGEN_HAVE_AVX2)
    case Isa::kAvx2:
      return avx2::table();
#endif
#if defined(RLGEN_HAVE_AVX512)
    case Isa::kAvx512:
      return avx512::table();
#endif
#if defined(RLGEN_HAVE_AVX512_BF16)
    case Isa::kAvx512Bf16:
      return avx512_bf16_table();
#endif
#if defined(RLGEN_HAVE_AMX)
    case Isa::kAmx:
      return amx_table();
#endif
#if defined(RLGEN_HAVE_NEON)
    case Isa::kNeon:
      return neon::table();
#endif
    default:
      return nullptr;
  }
}

bool machine_runs(const CpuFeatures& features, Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return features.avx2_fma;
    case Isa::kAvx512:
      return features.avx512;
    case Isa::kAvx512Bf16:
      return features.avx512_bf16;
    case Isa::kAmx:
      return features.amx_bf16;
    case Isa::kNeon:
      return features.neon;
  }
  return false;
}

std::string names_of(const std::vector<Isa>& isas) {
  std::vector<std::string_view> names;
  for (const Isa isa : isas) names.push_back(isa_name(isa));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
    case Isa::kNeon:
      return "neon";
  }
  return "unknown";
}

std::vector<Isa> runnable_isas(const CpuFeatures& features) {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (built_table(isa) != nullptr && machine_runs(features, isa)) isas.push_back(isa);
  }
  return isas;
}

namespace {

// An emulated instruction set is there wherever its emulation runs.
CpuFeatures features_here() {
  CpuFeatures features = detect_cpu_features();
#if defined(RLGEN_EMULATE_AVX512)
  features.avx512 = features.avx512_bf16 = features.amx_bf16 = features.avx2_fma;
#endif
  return features;
}

}  // namespace

std::vector<Isa> available_isas() { return runnable_isas(features_here()); }

StatusOr<const KernelTable*> select_kernels(std::string_view isa, const CpuFeatures& features) {
  const std::vector<Isa> runnable = runnable_isas(features);
  if (isa == "auto") return built_table(runnable.back());
  for (const Isa candidate : runnable) {
    if (isa == isa_name(candidate)) return built_table(candidate);
  }
  for (const Isa candidate : kAllIsas) {
    if (isa != isa_name(candidate)) continue;
    return absl::UnimplementedError(
        fmt::format("isa '{}' is not {} (there are: {}); use one of these or 'auto'", isa,
                    built_table(candidate) == nullptr ? "in this build" : "on this machine",
                    names_of(runnable)));
  }
  return absl::InvalidArgumentError(
      fmt::format("isa '{}' is unknown; use 'auto' or one of: {}", isa, names_of(runnable)));
}

StatusOr<const KernelTable*> select_kernels(std::string_view isa) {
  return select_kernels(isa, features_here());
}

const KernelTable* kernel_table(Isa isa) { return built_table(isa); }

}  // namespace rlgen::kernels
