#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

struct RtTemplate;

namespace rlgen::text {

// One conversation to render. The JSON texts go to the template in the order of their keys.
struct ChatRequest {
  std::string messages_json;  // array of {"role", "content", ...}
  std::string tools_json;     // array of tools; empty: none
  std::string extra_json;     // object of further variables (chat_template_kwargs); empty: none
  bool add_generation_prompt = true;
  // Local time that strftime_now sees, "2024-07-26T12:00:00"; empty: the machine's. A run that must
  // be repeatable gives one.
  std::string clock;
  // One of the checkpoint's named templates; empty: "tool_use" where there are tools and such a
  // template, else "default".
  std::string template_name;
};

// The chat templates of a checkpoint, rendered as Hugging Face transformers renders them.
// Immutable: any number of threads may call it.
class ChatTemplate {
 public:
  // Reads `folder`: chat_template.jinja, else chat_template of tokenizer_config.json (a text or a
  // list of named ones), and additional_chat_templates/NAME.jinja beside either. `special_tokens`
  // are the variables bos_token and so on; unset ones print nothing.
  // Errors: kNotFound where the checkpoint has no template (none is made up: fallback() must be
  // asked for), kInvalidArgument for one that does not compile, with file and line.
  static StatusOr<std::shared_ptr<const ChatTemplate>> load(const std::string& folder,
                                                            const SpecialTokens& special_tokens);
  // From the text of one template.
  static StatusOr<std::shared_ptr<const ChatTemplate>> from_source(
      std::string_view source, const SpecialTokens& special_tokens);
  // For a checkpoint without a template, when the caller explicitly wants some rendering: the BOS
  // text if there is one, then a line "role: content" for each message, then "assistant:".
  static StatusOr<std::shared_ptr<const ChatTemplate>> fallback(
      const SpecialTokens& special_tokens);

  // The rendered text. Errors: kInvalidArgument for JSON that is none, an unknown template_name,
  // and whatever the template refuses or cannot do, with the line in the template.
  StatusOr<std::string> render(const ChatRequest& request) const;

  // kInvalidArgument where the template that would be rendered never looks at "tools", or at one of
  // the variables of extra_json, that the request gives. Errors of render() for what is no JSON or
  // an unknown template_name.
  Status check_arguments(const ChatRequest& request) const;

  // The ids of the rendered text. The template writes every special token itself, so the
  // tokenizer adds none.
  StatusOr<std::vector<int32_t>> render_ids(const ChatRequest& request,
                                            const Tokenizer& tokenizer) const;

  // Names of the templates, sorted.
  std::vector<std::string> names() const;
  // The text of a template; empty where there is none of that name.
  std::string_view source(std::string_view name = "default") const;

 private:
  struct Deleter {
    void operator()(RtTemplate* made) const;
  };
  struct Compiled {
    std::string source;
    std::unique_ptr<RtTemplate, Deleter> handle;
  };

  explicit ChatTemplate(const SpecialTokens& special_tokens)
      : special_tokens_json_(special_tokens.named_json) {}
  Status add(const std::string& name, std::string source);
  StatusOr<const Compiled*> choose(const ChatRequest& request) const;

  std::string special_tokens_json_;
  std::map<std::string, Compiled, std::less<>> templates_;
};

}  // namespace rlgen::text
