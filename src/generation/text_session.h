#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/rollout.h"
#include "generation/prompt_line.h"
#include "text/chat_template.h"
#include "text/text_assembler.h"
#include "text/tokenizer.h"

namespace rlgen::generation {

// The text side of one model: the only place above the shards where text and token ids meet.
// Immutable; any number of threads may call it.
class TextSession {
 public:
  // Reads the tokenizer of a checkpoint folder and, where there is one, its chat template. Errors:
  // those of Tokenizer::load (kNotFound without a tokenizer) and ChatTemplate::load, except that a
  // missing template is an error only when it is asked for.
  static StatusOr<std::shared_ptr<const TextSession>> open(const std::string& folder);

  // The same; null where the folder has no tokenizer.
  static StatusOr<std::shared_ptr<const TextSession>> open_if_there(const std::string& folder);

  // bad_word_ids of `session`, as GenerationOptions::bad_words takes it; empty for null.
  using WordIds = std::function<StatusOr<std::vector<std::vector<int32_t>>>(const std::string&)>;
  static WordIds bad_words(std::shared_ptr<const TextSession> session);

  // The ids of a prompt: text as the tokenizer encodes it, with its special tokens; messages
  // through the chat template, with the start of the assistant's turn; ids as they are.
  // kInvalidArgument for what cannot be encoded or rendered and for arguments that the template
  // never looks at, kNotFound for messages without a chat template.
  StatusOr<std::vector<int32_t>> encode(const Prompt& prompt) const;

  // The id sequences of a word to ban: as it starts a text and as it follows a blank.
  StatusOr<std::vector<std::vector<int32_t>>> bad_word_ids(const std::string& word) const;

  // Sets rollout->text. An error leaves it as it was.
  Status fill_text(Rollout* rollout) const;

  // Incremental text of one sample.
  StatusOr<text::TextAssembler> stream(const SamplingParams& sampling,
                                       const std::vector<int32_t>& prompt_token_ids) const;

  // The id of the pad token; nothing where the tokenizer names none.
  std::optional<int32_t> pad_token_id() const;

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Null where the checkpoint has none.
  const text::ChatTemplate* chat_template() const { return template_.get(); }

 private:
  TextSession() = default;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const text::ChatTemplate> template_;
};

}  // namespace rlgen::generation
