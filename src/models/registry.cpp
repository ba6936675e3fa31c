#include "models/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "contract/limits.h"
#include "contract/spec_error.h"
#include "models/families/decoder_names.h"
#include "models/families/family.h"

namespace rlgen::models {
namespace {

constexpr Family kFamilies[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2, deepseek_names},
    {"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3, deepseek_names},
    {"gpt_oss", "GptOssForCausalLM", read_gpt_oss, gpt_oss_names},
    {"llama", "LlamaForCausalLM", read_llama, dense_names},
    {"mistral", "MistralForCausalLM", read_mistral, dense_names},
    {"mixtral", "MixtralForCausalLM", read_mixtral, mixtral_names},
    {"olmoe", "OlmoeForCausalLM", read_olmoe, dense_names},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2, dense_names},
    {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe, dense_names},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3, dense_names},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe, dense_names},
    {"smollm3", "SmolLM3ForCausalLM", read_smollm3, dense_names},
};

Status unknown_family(const std::string& file, const std::string& model_type) {
  std::string known;
  for (const Family& family : kFamilies) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  return absl::UnimplementedError(
      fmt::format("{}: model_type is \"{}\"; the families served are {}", file, model_type, known));
}

void check_architecture(ConfigReader& config, const Family& family) {
  const std::vector<std::string> names = config.texts("architectures");
  if (names.empty() || std::ranges::find(names, family.architecture) != names.end()) return;
  config.fail(absl::UnimplementedError(
      fmt::format("{}: architectures is [\"{}\"]; of the {} family {} is served", config.file(),
                  names[0], family.model_type, family.architecture)));
}

StatusOr<int32_t> context_in_force(const ConfigReader& config, const RotaryParameters& rotary,
                                   int64_t max_model_len) {
  if (max_model_len == 0) return rotary.max_position;
  const int32_t longest = longest_context(rotary);
  if (max_model_len >= kLeastModelLen && max_model_len <= longest) return int32_t(max_model_len);
  return spec_error(
      "max_model_len",
      absl::InvalidArgumentError(
          fmt::format("max_model_len is {}, but {} allows {} to {} (max_position_embeddings is {})",
                      max_model_len, config.file(), kLeastModelLen, longest, rotary.max_position)));
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  const auto* at = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return at == std::end(kFamilies) ? nullptr : at;
}

StatusOr<ResolvedConfig> resolve_config(const nlohmann::json& document, const std::string& file,
                                        int64_t max_model_len) {
  ConfigReader config(document, file);
  const std::string model_type = config.text("model_type");
  RLGEN_RETURN_IF_ERROR(config.status());
  const Family* family = find_family(model_type);
  if (family == nullptr) return unknown_family(file, model_type);
  check_architecture(config, *family);
  FamilyConfig read = family->read(config);
  RLGEN_RETURN_IF_ERROR(config.finish(family->model_type));
  RLGEN_ASSIGN_OR_RETURN(const int32_t context,
                         context_in_force(config, read.rotary, max_model_len));
  read.spec.rotary = resolve_rotary(read.rotary, context);
  return ResolvedConfig{family, std::move(read.spec), rotary_name(read.rotary, context), context};
}

}  // namespace rlgen::models
