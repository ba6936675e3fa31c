#include "models/model.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/float_mode.h"
#include "models/json_document.h"
#include "models/model_digest.h"
#include "models/registry.h"
#include "models/rounding.h"
#include "models/stop_ids.h"

namespace rlgen::models {
namespace {

// Optional names repeat another tensor's bytes; a file in which they differ is no tied model.
Status check_aliases(const SafetensorsFolder& tensors, const NameTable& table) {
  for (const WeightEntry& entry : table.entries) {
    const StoredTensor* alias = entry.optional ? tensors.find(entry.name) : nullptr;
    if (alias == nullptr) continue;
    for (const WeightEntry& other : table.entries) {
      if (other.optional || other.slot != entry.slot || other.row != entry.row) continue;
      const StoredTensor* original = tensors.find(other.name);
      if (original != nullptr && original->dtype == alias->dtype &&
          std::memcmp(original->bytes.data(), alias->bytes.data(), alias->bytes.size()) == 0) {
        continue;
      }
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor \"{}\" differs from \"{}\", but config.json ties them; set "
                      "tie_word_embeddings to false if both are meant",
                      alias->file, entry.name, other.name));
    }
  }
  return absl::OkStatus();
}

// Not inlined: numbers are read and frequencies computed inside the caller's float mode.
[[gnu::noinline]] StatusOr<Model> read_model(const std::string& model, int64_t max_model_len,
                                             std::optional<DType> dtype, kernels::Profile profile) {
  RLGEN_ASSIGN_OR_RETURN(const std::string path, resolve_model_path(model));
  const std::string file = path + "/config.json";
  RLGEN_ASSIGN_OR_RETURN(const nlohmann::json document, read_json_file(file));
  RLGEN_ASSIGN_OR_RETURN(ResolvedConfig config, resolve_config(document, file, max_model_len));
  DecoderSpec& spec = config.spec;
  RLGEN_ASSIGN_OR_RETURN(spec.eos_token_ids, read_stop_ids(path, document, spec.vocab_rows));
  RLGEN_ASSIGN_OR_RETURN(SafetensorsFolder tensors, SafetensorsFolder::open(path));
  auto table = std::make_shared<NameTable>(config.family->names(spec));
  tensors.leave_out([&](std::string_view name) { return table->ignores(name); });
  table->dtype = dtype;
  if (profile != kernels::Profile::kFloat32) table->matrix_dtype = DType::kBFloat16;
  if (Status fits = resolve_layout(tensors.manifest(), table.get()); !fits.ok()) {
    return annotate(fits, path);
  }
  RLGEN_RETURN_IF_ERROR(check_aliases(tensors, *table));
  if (const auto held = table->held_dtype()) {
    RLGEN_RETURN_IF_ERROR(check_range(tensors, *held));
  }
  const bool rounds = dtype && loses_bits(tensors, *dtype);
  const std::string digest = model_digest(spec, *table, rounds ? dtype : std::nullopt);
  const std::vector<int32_t> stop_ids = spec.eos_token_ids;
  return Model{path,
               make_decoder(std::move(spec), std::move(table)),
               std::move(tensors),
               digest,
               std::move(config.rotary_name),
               stop_ids,
               config.max_model_len};
}

}  // namespace

StatusOr<Model> open_model(const std::string& model, int64_t max_model_len,
                           std::optional<DType> dtype, kernels::Profile profile) {
  const ScopedFloatMode mode(FloatMode::kGradual);
  return read_model(model, max_model_len, dtype, profile);
}

}  // namespace rlgen::models
