#include "text/chat_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "text/rust_buffer.h"

namespace rlgen::text {
namespace {

constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";
constexpr std::string_view kFallback =
    "{{ bos_token }}{% for message in messages %}{{ message.role }}: {{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

using NamedSources = std::vector<std::pair<std::string, std::string>>;

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

StatusOr<NamedSources> sources_of_config(const std::filesystem::path& path) {
  NamedSources sources;
  if (!is_there(path)) return sources;
  RLGEN_ASSIGN_OR_RETURN(const std::string text, read_file(path.string()));
  const auto config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(fmt::format("{}: not a JSON object", path.string()));
  }
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return sources;
  if (found->is_string()) {
    sources.emplace_back(kDefault, found->get<std::string>());
    return sources;
  }
  const Status refused = absl::InvalidArgumentError(fmt::format(
      "{}: chat_template is neither a text nor a list of {{name, template}}", path.string()));
  if (!found->is_array()) return refused;
  for (const auto& entry : *found) {
    const bool named = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                       entry.contains("template") && entry["template"].is_string();
    if (!named) return refused;
    sources.emplace_back(entry["name"].get<std::string>(), entry["template"].get<std::string>());
  }
  return sources;
}

StatusOr<NamedSources> sources_of_folder(const std::filesystem::path& root) {
  NamedSources sources;
  if (is_there(root / "chat_template.jinja")) {
    RLGEN_ASSIGN_OR_RETURN(std::string text, read_file((root / "chat_template.jinja").string()));
    sources.emplace_back(kDefault, std::move(text));
  } else {
    RLGEN_ASSIGN_OR_RETURN(sources, sources_of_config(root / "tokenizer_config.json"));
  }
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root / "additional_chat_templates", error)) {
    if (entry.path().extension() != ".jinja") continue;
    RLGEN_ASSIGN_OR_RETURN(std::string text, read_file(entry.path().string()));
    sources.emplace_back(entry.path().stem().string(), std::move(text));
  }
  return sources;
}

RtText to_rust(std::string_view text) { return {rust_bytes(text), text.size()}; }

}  // namespace

void ChatTemplate::Deleter::operator()(RtTemplate* made) const { rt_template_free(made); }

StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::load(
    const std::string& folder, const SpecialTokens& special_tokens) {
  RLGEN_ASSIGN_OR_RETURN(NamedSources sources, sources_of_folder(folder));
  if (sources.empty()) {
    return absl::NotFoundError(fmt::format(
        "{} has no chat template (neither chat_template.jinja nor chat_template in "
        "tokenizer_config.json); send a plain prompt or token ids, or add a chat_template.jinja",
        folder));
  }
  std::shared_ptr<ChatTemplate> made(new ChatTemplate(special_tokens));
  for (auto& [name, source] : sources) {
    const Status added = made->add(name, std::move(source));
    if (!added.ok()) return annotate(added, fmt::format("{}: template '{}'", folder, name));
  }
  return made;
}

StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::from_source(
    std::string_view source, const SpecialTokens& special_tokens) {
  std::shared_ptr<ChatTemplate> made(new ChatTemplate(special_tokens));
  RLGEN_RETURN_IF_ERROR(made->add(std::string(kDefault), std::string(source)));
  return made;
}

StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::fallback(
    const SpecialTokens& special_tokens) {
  return from_source(kFallback, special_tokens);
}

Status ChatTemplate::add(const std::string& name, std::string source) {
  RtTemplate* handle = nullptr;
  RustBuffer error;
  const int32_t code = rt_template_new(rust_bytes(source), source.size(), &handle, error.out());
  RLGEN_RETURN_IF_ERROR(rust_status(code, error));
  templates_[name] = Compiled{std::move(source), std::unique_ptr<RtTemplate, Deleter>(handle)};
  return {};
}

StatusOr<const ChatTemplate::Compiled*> ChatTemplate::choose(const ChatRequest& request) const {
  std::string_view name = request.template_name;
  if (name.empty()) {
    const bool for_tools = !request.tools_json.empty() && templates_.contains(kToolUse);
    name = for_tools ? kToolUse : kDefault;
  }
  const auto found = templates_.find(name);
  if (found == templates_.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "the checkpoint has no chat template '{}'; it has: {}", name, fmt::join(names(), ", ")));
  }
  return &found->second;
}

Status ChatTemplate::check_arguments(const ChatRequest& request) const {
  RLGEN_ASSIGN_OR_RETURN(const Compiled* chosen, choose(request));
  const auto check = [&](const std::string& name, const std::string& argument) {
    const bool read = rt_template_reads(chosen->handle.get(), rust_bytes(name), name.size());
    if (read) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: the chat template of this model never looks at it; leave it out, or use a "
                    "model whose template has {}",
                    argument, name));
  };
  if (!request.tools_json.empty() && request.tools_json != "[]") {
    RLGEN_RETURN_IF_ERROR(check("tools", "tools"));
  }
  if (request.extra_json.empty()) return absl::OkStatus();
  const auto extra = nlohmann::json::parse(request.extra_json, nullptr, false);
  if (!extra.is_object()) {
    return absl::InvalidArgumentError("chat_template_kwargs: not a JSON object");
  }
  for (const auto& [name, value] : extra.items()) {
    RLGEN_RETURN_IF_ERROR(check(name, "chat_template_kwargs." + name));
  }
  return absl::OkStatus();
}

StatusOr<std::string> ChatTemplate::render(const ChatRequest& request) const {
  RLGEN_ASSIGN_OR_RETURN(const Compiled* chosen, choose(request));
  const RtRenderRequest rust_request = {.messages = to_rust(request.messages_json),
                                        .tools = to_rust(request.tools_json),
                                        .special_tokens = to_rust(special_tokens_json_),
                                        .extra = to_rust(request.extra_json),
                                        .clock = to_rust(request.clock),
                                        .add_generation_prompt = request.add_generation_prompt};
  RustBuffer out;
  const int32_t code = rt_template_render(chosen->handle.get(), &rust_request, out.out());
  RLGEN_RETURN_IF_ERROR(rust_status(code, out));
  return out.text();
}

StatusOr<std::vector<int32_t>> ChatTemplate::render_ids(const ChatRequest& request,
                                                        const Tokenizer& tokenizer) const {
  RLGEN_ASSIGN_OR_RETURN(const std::string text, render(request));
  return tokenizer.encode(text, /*add_special_tokens=*/false);
}

std::vector<std::string> ChatTemplate::names() const {
  std::vector<std::string> names;
  for (const auto& [name, compiled] : templates_) names.push_back(name);
  return names;
}

std::string_view ChatTemplate::source(std::string_view name) const {
  const auto found = templates_.find(name);
  return found == templates_.end() ? std::string_view() : std::string_view(found->second.source);
}

}  // namespace rlgen::text
