#include "text/special_tokens.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

namespace rlgen::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
constexpr std::string_view kList = "additional_special_tokens";

StatusOr<Json> parse_object(std::string_view text, std::string_view file) {
  if (text.empty()) return Json::object();
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(fmt::format("{}: not a JSON object", file));
  }
  return json;
}

// A token is written as its text or as an object with "content".
std::optional<std::string> content_of(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return std::nullopt;
}

Json added_entry(const Json& token, const std::string& content) {
  Json entry = token.is_object() ? token : Json::object();
  entry["content"] = content;
  return entry;
}

Json named_entry(const Json& token, const std::string& content) {
  Json entry = added_entry(token, content);
  entry["special"] = true;
  entry["keep"] = true;
  return entry;
}

StatusOr<Json> decoder_entries(const Json& config) {
  std::map<int64_t, Json> by_id;
  if (!config.contains("added_tokens_decoder")) return Json::array();
  const Json& decoder = config["added_tokens_decoder"];
  if (!decoder.is_object()) {
    return absl::InvalidArgumentError("tokenizer_config.json: added_tokens_decoder is no object");
  }
  for (const auto& [key, token] : decoder.items()) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const auto content = content_of(token);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || !content) {
      return absl::InvalidArgumentError(
          fmt::format("tokenizer_config.json: added_tokens_decoder.{} is no token", key));
    }
    Json entry = added_entry(token, *content);
    entry["id"] = id;
    by_id.emplace(id, std::move(entry));
  }
  Json entries = Json::array();
  for (auto& [id, entry] : by_id) entries.push_back(std::move(entry));
  return entries;
}

void read_named(const Json& source, Json& named, Json& added) {
  for (std::string_view name : kNames) {
    const auto found = source.find(std::string(name));
    if (found == source.end()) continue;
    if (const auto content = content_of(*found)) {
      named[std::string(name)] = *content;
      added.push_back(named_entry(*found, *content));
    }
  }
  const auto list = source.find(std::string(kList));
  if (list == source.end() || !list->is_array()) return;
  Json contents = Json::array();
  for (const Json& token : *list) {
    if (const auto content = content_of(token)) {
      contents.push_back(*content);
      added.push_back(named_entry(token, *content));
    }
  }
  if (!contents.empty()) named[std::string(kList)] = std::move(contents);
}

std::optional<std::string> text_at(const Json& named, const char* name) {
  const auto found = named.find(name);
  if (found == named.end()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

StatusOr<SpecialTokens> read_special_tokens(std::string_view config_json,
                                            std::string_view map_json) {
  RLGEN_ASSIGN_OR_RETURN(Json config, parse_object(config_json, "tokenizer_config.json"));
  RLGEN_ASSIGN_OR_RETURN(const Json map, parse_object(map_json, "special_tokens_map.json"));
  RLGEN_ASSIGN_OR_RETURN(Json added, decoder_entries(config));
  if (!config.contains("added_tokens_decoder")) {
    for (const auto& [name, token] : map.items()) config[name] = token;
  }
  Json named = Json::object();
  read_named(config, named, added);
  SpecialTokens tokens;
  tokens.bos = text_at(named, "bos_token");
  tokens.eos = text_at(named, "eos_token");
  tokens.named_json = named.dump();
  tokens.added_json = added.dump();
  return tokens;
}

}  // namespace rlgen::text
