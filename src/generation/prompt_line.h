#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "contract/routes/given_routes.h"
#include "contract/sampling_params.h"

namespace rlgen::generation {

// Plain text, tokenized with the special tokens that the tokenizer adds.
struct TextPrompt {
  std::string text;
};

// A conversation for the chat template. All three are JSON text: an array of messages, an array of
// tools (or empty), an object of extra template arguments (or empty).
struct ChatPrompt {
  std::string messages;
  std::string tools;
  std::string template_kwargs;
};

// Token ids, used as they are.
using TokenPrompt = std::vector<int32_t>;

using Prompt = std::variant<TextPrompt, ChatPrompt, TokenPrompt>;

// One line of a prompts file.
struct PromptLine {
  std::string id;
  Prompt prompt;
  SamplingParams sampling;
  GivenRoutes routed_experts;  // null where the line has none
};

// Reads a line: exactly one of "prompt", "messages" (with "tools", "chat_template_kwargs") and
// "prompt_token_ids"; "id" (text, or a whole number that becomes its decimal text; else
// `line_number`); "routed_experts" (contract/routes/routed_experts.h); and any sampling parameter,
// which goes over `defaults`. kInvalidArgument names the key and the value; an unknown key gets a
// "did you mean". Token ids are only checked to be whole numbers of 0 or more.
StatusOr<PromptLine> parse_prompt_line(std::string_view line, int64_t line_number,
                                       const SamplingParams& defaults);

// The id of a line that could not be read: its own where that much can be made out, else its
// number.
std::string id_of_bad_line(std::string_view line, int64_t line_number);

// The keys of a line, whatever their values; none where it is no JSON object.
std::vector<std::string> keys_of_line(std::string_view line);

// The ids met so far in a file.
class PromptIds {
 public:
  // kInvalidArgument when `id` was there before.
  Status add(const std::string& id);

 private:
  std::set<std::string> seen_;
};

}  // namespace rlgen::generation
