#include "generation/prompt_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/edit_distance.h"
#include "contract/routes/routed_experts.h"
#include "contract/sampling_json.h"
#include "generation/json_line.h"

namespace rlgen::generation {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kPromptKeys = {"id",
                                                         "prompt",
                                                         "messages",
                                                         "tools",
                                                         "chat_template_kwargs",
                                                         "prompt_token_ids",
                                                         "routed_experts"};

bool is_prompt_key(std::string_view key) {
  return std::find(kPromptKeys.begin(), kPromptKeys.end(), key) != kPromptKeys.end();
}

Status unknown_key(std::string_view key) {
  std::vector<std::string> known(kPromptKeys.begin(), kPromptKeys.end());
  const ordered_json sampling = sampling_to_json({});
  for (const auto& [name, value] : sampling.items()) known.push_back(name);
  return absl::InvalidArgumentError(
      fmt::format("{} is no key of a prompt line{}", json_quoted(key), suggest(key, known)));
}

StatusOr<std::string> read_id(const ordered_json& line, int64_t line_number) {
  const auto found = line.find("id");
  if (found == line.end()) return std::to_string(line_number);
  if (found->is_number_integer()) return to_json_text(*found);
  if (!found->is_string()) return wrong_value("id", *found, "a string or a whole number");
  const auto id = found->get<std::string>();
  if (id.empty()) return wrong_value("id", *found, "a string that is not empty");
  return id;
}

StatusOr<Prompt> read_text(const ordered_json& value) {
  if (!value.is_string()) return wrong_value("prompt", value, "a string");
  auto text = value.get<std::string>();
  if (text.empty()) return absl::InvalidArgumentError("prompt is empty; there must be some text");
  return Prompt(TextPrompt{std::move(text)});
}

StatusOr<Prompt> read_token_ids(const ordered_json& value) {
  if (!value.is_array()) return wrong_value("prompt_token_ids", value, "a list of token ids");
  if (value.empty()) {
    return absl::InvalidArgumentError("prompt_token_ids is empty; there must be at least one id");
  }
  TokenPrompt ids;
  ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const bool fits = value[i].is_number_unsigned() &&
                      value[i].get<uint64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) return wrong_value(fmt::format("prompt_token_ids[{}]", i), value[i], "a token id");
    ids.push_back(value[i].get<int32_t>());
  }
  return Prompt(std::move(ids));
}

StatusOr<Prompt> read_chat(const ordered_json& line) {
  const ordered_json& messages = line.at("messages");
  if (!messages.is_array()) return wrong_value("messages", messages, "a list of messages");
  if (messages.empty()) {
    return absl::InvalidArgumentError("messages is empty; there must be at least one message");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object() || !messages[i].contains("role")) {
      return wrong_value(fmt::format("messages[{}]", i), messages[i], "an object with a role");
    }
  }
  ChatPrompt chat{.messages = to_json_text(messages), .tools = {}, .template_kwargs = {}};
  if (const auto tools = line.find("tools"); tools != line.end() && !tools->is_null()) {
    if (!tools->is_array()) return wrong_value("tools", *tools, "a list of tools");
    chat.tools = to_json_text(*tools);
  }
  if (const auto extra = line.find("chat_template_kwargs");
      extra != line.end() && !extra->is_null()) {
    if (!extra->is_object()) return wrong_value("chat_template_kwargs", *extra, "an object");
    chat.template_kwargs = to_json_text(*extra);
  }
  return Prompt(std::move(chat));
}

StatusOr<Prompt> read_prompt(const ordered_json& line) {
  std::vector<std::string_view> given;
  for (const std::string_view key : {"prompt", "messages", "prompt_token_ids"}) {
    if (line.contains(key)) given.push_back(key);
  }
  if (given.size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("the line has {}; exactly one of prompt, messages and prompt_token_ids must "
                    "be there",
                    given.empty() ? "no prompt" : fmt::format("{} and {}", given[0], given[1])));
  }
  for (const std::string_view key : {"tools", "chat_template_kwargs"}) {
    if (given[0] != "messages" && line.contains(key)) {
      return absl::InvalidArgumentError(
          fmt::format("{} belongs to messages; the line has {}", key, given[0]));
    }
  }
  if (given[0] == "prompt") return read_text(line.at("prompt"));
  if (given[0] == "messages") return read_chat(line);
  return read_token_ids(line.at("prompt_token_ids"));
}

}  // namespace

StatusOr<PromptLine> parse_prompt_line(std::string_view text, int64_t line_number,
                                       const SamplingParams& defaults) {
  RLGEN_ASSIGN_OR_RETURN(const ordered_json line, parse_json_line(text));
  auto sampling = nlohmann::json::object();
  for (const auto& [key, value] : line.items()) {
    if (is_prompt_key(key)) continue;
    if (!is_sampling_key(key)) return unknown_key(key);
    sampling[key] = nlohmann::json(value);
  }
  PromptLine parsed{.id = {}, .prompt = {}, .sampling = defaults, .routed_experts = nullptr};
  RLGEN_ASSIGN_OR_RETURN(parsed.id, read_id(line, line_number));
  RLGEN_ASSIGN_OR_RETURN(parsed.prompt, read_prompt(line));
  RLGEN_RETURN_IF_ERROR(merge_sampling_json(sampling, "", &parsed.sampling));
  if (const auto routes = line.find("routed_experts"); routes != line.end()) {
    RLGEN_ASSIGN_OR_RETURN(HostTensor given, decode_routed_experts_json(nlohmann::json(*routes)));
    parsed.routed_experts = std::make_shared<const HostTensor>(std::move(given));
  }
  return parsed;
}

std::string id_of_bad_line(std::string_view text, int64_t line_number) {
  const StatusOr<ordered_json> line = parse_json_line(text);
  if (line.ok()) {
    if (const StatusOr<std::string> id = read_id(*line, line_number); id.ok()) return *id;
  }
  return std::to_string(line_number);
}

std::vector<std::string> keys_of_line(std::string_view text) {
  std::vector<std::string> keys;
  const StatusOr<ordered_json> line = parse_json_line(text);
  if (!line.ok()) return keys;
  for (const auto& [key, value] : line->items()) keys.push_back(key);
  return keys;
}

Status PromptIds::add(const std::string& id) {
  if (seen_.insert(id).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("id {} was there before in this file; ids must differ", json_quoted(id)));
}

}  // namespace rlgen::generation
