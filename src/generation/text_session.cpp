#include "generation/text_session.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rlgen::generation {

StatusOr<std::shared_ptr<const TextSession>> TextSession::open(const std::string& folder) {
  std::shared_ptr<TextSession> session(new TextSession());
  RLGEN_ASSIGN_OR_RETURN(session->tokenizer_, text::Tokenizer::load(folder));
  auto chat = text::ChatTemplate::load(folder, session->tokenizer_->special_tokens());
  if (chat.ok()) {
    session->template_ = *std::move(chat);
  } else if (chat.status().code() != absl::StatusCode::kNotFound) {
    return chat.status();
  }
  return std::shared_ptr<const TextSession>(std::move(session));
}

StatusOr<std::shared_ptr<const TextSession>> TextSession::open_if_there(const std::string& folder) {
  auto session = open(folder);
  if (absl::IsNotFound(session.status())) return std::shared_ptr<const TextSession>();
  return session;
}

TextSession::WordIds TextSession::bad_words(std::shared_ptr<const TextSession> session) {
  if (!session) return {};
  return [session = std::move(session)](const std::string& word) {
    return session->bad_word_ids(word);
  };
}

StatusOr<std::vector<int32_t>> TextSession::encode(const Prompt& prompt) const {
  if (const auto* ids = std::get_if<TokenPrompt>(&prompt)) return *ids;
  if (const auto* plain = std::get_if<TextPrompt>(&prompt)) {
    return tokenizer_->encode(plain->text, true);
  }
  if (!template_) {
    return absl::NotFoundError(
        "messages need a chat template, which this model does not have; use prompt");
  }
  const auto& chat = std::get<ChatPrompt>(prompt);
  const text::ChatRequest request{
      .messages_json = chat.messages, .tools_json = chat.tools, .extra_json = chat.template_kwargs};
  RLGEN_RETURN_IF_ERROR(template_->check_arguments(request));
  return template_->render_ids(request, *tokenizer_);
}

StatusOr<std::vector<std::vector<int32_t>>> TextSession::bad_word_ids(
    const std::string& word) const {
  const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
  std::vector<std::vector<int32_t>> sequences;
  for (const std::string& form : {bare, " " + bare}) {
    RLGEN_ASSIGN_OR_RETURN(auto ids, tokenizer_->encode(form, false));
    const bool known = std::find(sequences.begin(), sequences.end(), ids) != sequences.end();
    if (!ids.empty() && !known) sequences.push_back(std::move(ids));
  }
  if (sequences.empty()) {
    return absl::InvalidArgumentError("bad_words: \"" + word +
                                      "\" has no tokens in this model's vocabulary");
  }
  return sequences;
}

std::optional<int32_t> TextSession::pad_token_id() const {
  const auto named = nlohmann::json::parse(tokenizer_->special_tokens().named_json, nullptr, false);
  const auto token = named.is_object() ? named.find("pad_token") : named.end();
  if (token == named.end() || !token->is_string()) return std::nullopt;
  return tokenizer_->token_to_id(token->get<std::string>());
}

StatusOr<text::TextAssembler> TextSession::stream(
    const SamplingParams& sampling, const std::vector<int32_t>& prompt_token_ids) const {
  return text::TextAssembler::make(tokenizer_, sampling, prompt_token_ids);
}

Status TextSession::fill_text(Rollout* rollout) const {
  RLGEN_ASSIGN_OR_RETURN(auto assembler, stream(rollout->sampling, rollout->prompt_token_ids));
  std::vector<int32_t> ids;
  ids.reserve(rollout->tokens.size());
  for (const TokenRecord& record : rollout->tokens) ids.push_back(record.token);
  assembler.take(ids, rollout->finish);
  rollout->text = std::string(assembler.text());
  return absl::OkStatus();
}

}  // namespace rlgen::generation
