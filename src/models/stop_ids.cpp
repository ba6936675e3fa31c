#include "models/stop_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "models/json_document.h"

namespace rlgen::models {
namespace {

using nlohmann::json;

Status add_id(const json& value, const std::string& where, int32_t vocab_rows,
              std::vector<int32_t>* ids) {
  const bool known = value.is_number_integer() && value >= 0 && value < vocab_rows;
  if (!known) {
    return absl::InvalidArgumentError(fmt::format("{} is {}, expected a token id from 0 to {}",
                                                  where, show_json(value), vocab_rows - 1));
  }
  ids->push_back(value.get<int32_t>());
  return absl::OkStatus();
}

Status add_ids(const json& document, const std::string& file, int32_t vocab_rows,
               std::vector<int32_t>* ids) {
  const std::string where = file + ": eos_token_id";
  if (!document.is_object()) return absl::InvalidArgumentError(file + ": not an object");
  const auto at = document.find("eos_token_id");
  if (at == document.end() || at->is_null()) return absl::OkStatus();
  if (!at->is_array()) return add_id(*at, where, vocab_rows, ids);
  for (const json& id : *at) RLGEN_RETURN_IF_ERROR(add_id(id, where, vocab_rows, ids));
  return absl::OkStatus();
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The text of `eos_token`: a string, or an object that has it as "content".
std::optional<std::string> eos_text(const json& config) {
  if (!config.is_object() || !config.contains("eos_token")) return std::nullopt;
  const json& token = config["eos_token"];
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return std::nullopt;
}

// tokenizer_config.json may carry the ids itself: added_tokens_decoder {"2": {"content": ...}}.
std::optional<json> id_in_config(const json& config, const std::string& token) {
  const auto table = config.find("added_tokens_decoder");
  if (table == config.end() || !table->is_object()) return std::nullopt;
  for (const auto& item : table->items()) {
    const json& entry = item.value();
    if (!entry.is_object() || entry.value("content", json()) != token) continue;
    const json id = json::parse(item.key(), nullptr, /*allow_exceptions=*/false);
    if (id.is_number_unsigned()) return id;
  }
  return std::nullopt;
}

Status add_tokenizer_id(const std::string& folder, int32_t vocab_rows, std::vector<int32_t>* ids) {
  const std::string file = folder + "/tokenizer_config.json";
  if (!exists(file)) return absl::OkStatus();
  RLGEN_ASSIGN_OR_RETURN(const json config, read_json_file(file));
  const std::optional<std::string> token = eos_text(config);
  if (!token) return absl::OkStatus();
  const std::string where = fmt::format("{}: the id of eos_token \"{}\"", file, *token);
  if (const std::optional<json> id = id_in_config(config, *token)) {
    return add_id(*id, where, vocab_rows, ids);
  }
  const std::string tokenizer = folder + "/tokenizer.json";
  std::optional<int64_t> id;
  if (exists(tokenizer)) {
    RLGEN_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::open(tokenizer));
    const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()),
                                mapped.bytes().size());
    RLGEN_ASSIGN_OR_RETURN(id, find_token_id(text, *token, tokenizer));
  }
  if (id && *id >= 0) return add_id(json(uint64_t(*id)), where, vocab_rows, ids);
  return absl::InvalidArgumentError(
      fmt::format("{}: eos_token \"{}\" has no id: {} {}", file, *token, tokenizer,
                  exists(tokenizer) ? "does not list it" : "is missing; download it"));
}

}  // namespace

StatusOr<std::vector<int32_t>> read_stop_ids(const std::string& folder, const json& config,
                                             int32_t vocab_rows) {
  std::vector<int32_t> ids;
  RLGEN_RETURN_IF_ERROR(add_ids(config, folder + "/config.json", vocab_rows, &ids));
  const std::string generation = folder + "/generation_config.json";
  if (exists(generation)) {
    RLGEN_ASSIGN_OR_RETURN(const json document, read_json_file(generation));
    RLGEN_RETURN_IF_ERROR(add_ids(document, generation, vocab_rows, &ids));
  }
  RLGEN_RETURN_IF_ERROR(add_tokenizer_id(folder, vocab_rows, &ids));
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

}  // namespace rlgen::models
