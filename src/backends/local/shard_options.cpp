#include "backends/local/shard_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "contract/limits.h"
#include "contract/spec_error.h"
#include "tensor/dtype.h"

namespace rlgen::backends {
namespace {

constexpr int64_t kMostBlocks = kMostInt32;  // they are counted so

// `least` is what one sequence needs, `most` what there is.
Status wrong_kv_bytes(int64_t bytes, int64_t least, int64_t most, int32_t max_model_len) {
  return spec_error(
      "kv_cache_memory_bytes",
      absl::ResourceExhaustedError(fmt::format(
          "kv_cache_memory_bytes is {}; it must be 0 (chosen by need and free memory) or from {}, "
          "which one sequence of max_model_len {} needs, to {}, the memory of this machine",
          bytes, least, max_model_len, most)));
}

Status wrong_fraction(double fraction, std::string_view rule) {
  return spec_error(
      "kv_cache_memory_fraction",
      absl::InvalidArgumentError(fmt::format("kv_cache_memory_fraction is {}{}", fraction, rule)));
}

Status check_fraction(const ShardSpec& spec) {
  const double fraction = spec.kv_cache_memory_fraction;
  if (!(fraction >= kLeastMemoryFraction && fraction <= kMostMemoryFraction)) {
    return wrong_fraction(fraction, fmt::format("; it must be a number from {} to {}",
                                                kLeastMemoryFraction, kMostMemoryFraction));
  }
  if (spec.kv_cache_memory_bytes == 0 || fraction == kMemoryFraction) return absl::OkStatus();
  return wrong_fraction(fraction, fmt::format(", but kv_cache_memory_bytes is {}, which is taken "
                                              "as it is; set one of them",
                                              spec.kv_cache_memory_bytes));
}

// `one`: bytes that one sequence needs; `share`: those that the fraction of `free` comes to.
Status too_small_fraction(const ShardSpec& spec, const kernels::KvLayout& layout,
                          int32_t max_model_len, int64_t one, int64_t free) {
  const double fraction = spec.kv_cache_memory_fraction;
  const auto share = int64_t(double(free) * fraction);
  std::vector<std::string> ways;
  if (one <= free) {
    const double least = std::ceil(1e3 * double(one) / double(free)) / 1e3;
    ways.push_back(fmt::format("a fraction from {} to {}", least, kMostMemoryFraction));
  }
  const int64_t fits = share / int64_t(layout.block_stride()) * layout.block_size;
  if (fits >= kLeastModelLen) {
    ways.push_back(fmt::format("max_model_len from {} to {}", kLeastModelLen, fits));
  }
  ways.emplace_back("kv_cache_memory_bytes, which is taken as it is");
  return spec_error(
      "kv_cache_memory_fraction",
      absl::ResourceExhaustedError(fmt::format(
          "kv_cache_memory_fraction is {}, which is {} bytes of the {} that are free, and one "
          "sequence of max_model_len {} needs {} bytes of keys and values; set {}",
          fraction, share, free, max_model_len, one, fmt::join(ways, ", or "))));
}

}  // namespace

StatusOr<MachineChoice> choose_machine(const ShardSpec& spec) {
  if (spec.num_threads < 0 || spec.num_threads > machine_cpus()) {
    return spec_error("num_threads", absl::InvalidArgumentError(fmt::format(
                                         "num_threads is {}; use 1 to {}, the CPUs of this "
                                         "machine, or 0 for every usable one ({} here)",
                                         spec.num_threads, machine_cpus(), usable_cpus())));
  }
  MachineChoice choice;
  const auto table = kernels::select_kernels(spec.isa);
  if (!table.ok()) return spec_error("isa", table.status());
  choice.kernels = *table;
  choice.num_threads = spec.num_threads > 0 ? spec.num_threads : usable_cpus();
  return choice;
}

StatusOr<std::optional<DType>> choose_dtype(const ShardSpec& spec) {
  if (spec.dtype == "auto") return std::optional<DType>();
  const auto dtype = parse_torch_dtype(spec.dtype);
  if (dtype && is_weight_type(*dtype)) return dtype;
  return spec_error("dtype",
                    absl::InvalidArgumentError(fmt::format(
                        "dtype is '{}'; use auto, float32, bfloat16 or float16", spec.dtype)));
}

StatusOr<kernels::Profile> choose_profile(const ShardSpec& spec) {
  const auto profile = kernels::parse_profile(spec.activation_dtype);
  if (!profile) {
    return spec_error("activation_dtype", absl::InvalidArgumentError(fmt::format(
                                              "activation_dtype is '{}'; use float32, bfloat16 or "
                                              "bfloat16_amx",
                                              spec.activation_dtype)));
  }
  if (*profile != kernels::Profile::kFloat32 && spec.dtype == "float16") {
    return spec_error("dtype",
                      absl::InvalidArgumentError(fmt::format(
                          "dtype is 'float16', but with activation_dtype '{}' every matrix is in "
                          "bfloat16; use auto, float32 or bfloat16",
                          spec.activation_dtype)));
  }
  return *profile;
}

StatusOr<models::Model> open_model(const ShardSpec& spec) {
  RLGEN_ASSIGN_OR_RETURN(const std::optional<DType> dtype, choose_dtype(spec));
  RLGEN_ASSIGN_OR_RETURN(const kernels::Profile profile, choose_profile(spec));
  return models::open_model(spec.model, spec.max_model_len, dtype, profile);
}

StatusOr<kernels::KvLayout> choose_kv_layout(const ShardSpec& spec,
                                             const models::DecoderSpec& model,
                                             const RouteFacts& routes) {
  RLGEN_ASSIGN_OR_RETURN(const kernels::Profile profile, choose_profile(spec));
  const std::string name(spec.kv_cache_dtype == "auto" ? torch_name(kernels::operand_dtype(profile))
                                                       : spec.kv_cache_dtype);
  const auto dtype = parse_torch_dtype(name);
  if (!dtype || !is_weight_type(*dtype)) {
    return spec_error("kv_cache_dtype",
                      absl::InvalidArgumentError(fmt::format(
                          "kv_cache_dtype is '{}'; use auto, float32, bfloat16 or float16", name)));
  }
  if (!kBlockSizeRange.contains(spec.block_size)) {
    return spec_error("block_size", absl::InvalidArgumentError(
                                        fmt::format("block_size is {}; it must be {}",
                                                    spec.block_size, kBlockSizeRange.rule())));
  }
  kernels::KvLayout layout = models::kv_layout(model, *dtype, spec.block_size);
  layout.side_bytes = engine::route_bytes(routes, spec.block_size);
  return layout;
}

StatusOr<engine::RouteCapture> choose_route_capture(const ShardSpec& spec,
                                                    const models::DecoderSpec& model) {
  const std::string& layers = spec.routed_experts_layers;
  const bool all = layers == "all";
  if (!all && layers != "moe") {
    return spec_error("routed_experts_layers",
                      absl::InvalidArgumentError(
                          fmt::format("routed_experts_layers is '{}'; use moe or all", layers)));
  }
  if (!spec.enable_return_routed_experts) {
    if (!all) return engine::RouteCapture::kOff;
    return spec_error(
        "routed_experts_layers",
        absl::InvalidArgumentError("routed_experts_layers is 'all', but no routes are "
                                   "recorded; set enable_return_routed_experts"));
  }
  if (models::route_axis(model).layers == 0) {
    return spec_error("enable_return_routed_experts",
                      absl::InvalidArgumentError(
                          fmt::format("enable_return_routed_experts is set, but a model of "
                                      "the family {} has no experts; leave it off",
                                      model.family)));
  }
  return all ? engine::RouteCapture::kAllLayers : engine::RouteCapture::kExpertLayers;
}

NumericsId numerics_of(const models::Model& model, kernels::Profile profile,
                       const kernels::KvLayout& layout) {
  return {.profile = std::string(kernels::profile_name(profile)),
          .revision = kernels::arithmetic_revision(profile),
          .kv_dtype = std::string(torch_name(layout.dtype)),
          .rotary = model.rotary_name,
          .model_digest = model.digest};
}

StatusOr<int64_t> choose_kv_bytes(const ShardSpec& spec, const kernels::KvLayout& layout,
                                  int32_t max_model_len, const MachineMemory& memory) {
  const auto block = int64_t(layout.block_stride());
  const int64_t blocks = (int64_t(max_model_len) + layout.block_size - 1) / layout.block_size;
  const int64_t one = blocks * block;
  RLGEN_RETURN_IF_ERROR(check_fraction(spec));
  if (spec.kv_cache_memory_bytes != 0) {
    const int64_t most = std::min(memory.total, kMostBlocks * block);
    const int64_t wanted = spec.kv_cache_memory_bytes;
    if (wanted >= one && wanted <= most) return wanted;
    return wrong_kv_bytes(wanted, one, most, max_model_len);
  }
  const auto share = int64_t(double(memory.free) * spec.kv_cache_memory_fraction);
  if (share < one) return too_small_fraction(spec, layout, max_model_len, one, memory.free);
  const int64_t most = std::min(share / block, kMostBlocks) * block;
  const int64_t seqs = std::max(spec.max_num_seqs, 1);
  return seqs > most / one ? most : one * seqs;
}

}  // namespace rlgen::backends
