#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/local/local_launcher.h"
#include "backends/local/shard_options.h"
#include "cli/commands.h"
#include "generation/text_session.h"
#include "models/model.h"
#include "models/weights.h"

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

ordered_json model_json(const models::Model& model) {
  const models::DecoderSpec& spec = model.decoder.spec;
  ordered_json facts = {{"path", model.path},
                        {"family", spec.family},
                        {"digest", model.digest},
                        {"layers", spec.layers},
                        {"hidden", spec.hidden},
                        {"heads", spec.heads},
                        {"kv_heads", spec.kv_heads},
                        {"head_dim", spec.head_dim},
                        {"intermediate", spec.intermediate},
                        {"vocab_rows", spec.vocab_rows},
                        {"tied_head", spec.tied_head},
                        {"rotary", model.rotary_name},
                        {"max_model_len", model.max_model_len},
                        {"eos_token_ids", model.eos_token_ids}};
  if (const models::LatentSpec& latent = spec.latent; latent.rank > 0) {
    facts["latent"] = {{"kv_lora_rank", latent.rank},
                       {"q_lora_rank", latent.query_rank},
                       {"qk_nope_head_dim", latent.plain},
                       {"qk_rope_head_dim", latent.rotated},
                       {"v_head_dim", latent.value}};
  }
  if (spec.experts.count == 0) return facts;
  facts["experts"] = spec.experts.count;
  facts["experts_per_token"] = spec.experts.top_k;
  facts["expert_intermediate"] = spec.experts.intermediate;
  facts["shared_expert_intermediate"] = spec.experts.shared_intermediate;
  facts["sparse_layers"] = models::route_axis(spec).layers;
  return facts;
}

Status add_weights(const models::Model& model, ordered_json* out) {
  models::NameTable table = *model.decoder.table;
  RLGEN_RETURN_IF_ERROR(models::resolve_layout(model.tensors.manifest(), &table));
  int64_t parameters = 0;
  int64_t stored = 0;
  for (const models::StoredTensor& tensor : model.tensors.tensors()) {
    parameters += tensor.shape.num_elements();
    stored += static_cast<int64_t>(tensor.bytes.size());
  }
  (*out)["parameters"] = parameters;
  (*out)["stored_bytes"] = stored;
  (*out)["weight_bytes"] = table.total_bytes;
  (*out)["ignored_files"] = model.tensors.ignored_files();
  return absl::OkStatus();
}

Status add_kv(const ShardSpec& shard, const models::Model& model, ordered_json* out) {
  RLGEN_ASSIGN_OR_RETURN(const auto layout, backends::choose_kv_layout(shard, model.decoder.spec));
  const auto bytes = static_cast<int64_t>(layout.block_stride()) / layout.block_size;
  (*out)["kv_bytes_per_token"] = bytes;
  (*out)["kv_dtype"] = std::string(torch_name(layout.dtype));
  RLGEN_ASSIGN_OR_RETURN(const kernels::Profile profile, backends::choose_profile(shard));
  (*out)["numerics"] = backends::numerics_of(model, profile, layout).to_string();
  return absl::OkStatus();
}

Status add_text(const std::string& folder, ordered_json* out) {
  const auto session = generation::TextSession::open(folder);
  if (session.status().code() == absl::StatusCode::kNotFound) {
    (*out)["tokenizer"] = nullptr;
    return absl::OkStatus();
  }
  if (!session.ok()) return session.status();
  const text::Tokenizer& tokenizer = (*session)->tokenizer();
  const auto id = [](std::optional<int32_t> value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
  };
  (*out)["tokenizer"] = {{"ids", tokenizer.vocab_size()},
                         {"special_ids", tokenizer.special_ids().size()},
                         {"bos", id(tokenizer.bos_id())},
                         {"eos", id(tokenizer.eos_id())}};
  const text::ChatTemplate* const chat = (*session)->chat_template();
  (*out)["chat_templates"] = chat != nullptr ? ordered_json(chat->names()) : ordered_json::array();
  return absl::OkStatus();
}

Status add_tensors(const models::Model& model, bool checksums, ordered_json* out) {
  auto list = ordered_json::array();
  std::vector<ManifestEntry> digests;
  if (checksums) {
    RLGEN_ASSIGN_OR_RETURN(digests, backends::served_checksums(model));
  }
  for (const models::StoredTensor& tensor : model.tensors.tensors()) {
    ordered_json entry = {{"name", tensor.name},
                          {"dtype", std::string(torch_name(tensor.dtype))},
                          {"shape", tensor.shape.to_string()},
                          {"file", tensor.file}};
    for (const ManifestEntry& digest : digests) {
      if (digest.name == tensor.name) entry["digest"] = digest.digest;
    }
    list.push_back(std::move(entry));
  }
  (*out)["tensors"] = std::move(list);
  return absl::OkStatus();
}

std::string fact_text(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_facts(const ordered_json& facts) {
  for (const auto& [key, value] : facts.items()) {
    if (key != "tensors") fmt::print("{:<20} {}\n", key, fact_text(value));
  }
  if (!facts.contains("tensors")) return;
  for (const ordered_json& tensor : facts["tensors"]) {
    fmt::print("{:<60} {:<9} {:<16} {}\n", fact_text(tensor["name"]), fact_text(tensor["dtype"]),
               fact_text(tensor["shape"]),
               tensor.contains("digest") ? fact_text(tensor["digest"]) : fact_text(tensor["file"]));
  }
}

}  // namespace

StatusOr<int> run_inspect(const InspectOptions& options) {
  const ShardSpec& shard = options.engine.spec;
  RLGEN_ASSIGN_OR_RETURN(const models::Model model, backends::open_model(shard));
  ordered_json facts = model_json(model);
  RLGEN_RETURN_IF_ERROR(add_weights(model, &facts));
  RLGEN_RETURN_IF_ERROR(add_kv(shard, model, &facts));
  RLGEN_RETURN_IF_ERROR(add_text(model.path, &facts));
  if (options.tensors) RLGEN_RETURN_IF_ERROR(add_tensors(model, options.checksums, &facts));
  if (options.json) {
    fmt::print("{}\n", facts.dump(2));
  } else {
    print_facts(facts);
  }
  return kExitGood;
}

}  // namespace rlgen::cli
