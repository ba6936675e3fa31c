#include "cli/option_words.h"

#include <array>
#include <string>
#include <string_view>

#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

struct Name {
  std::string_view field;
  std::string_view option;
};

constexpr std::array kNames = {
    Name{"num_threads", "--threads"},
    Name{"activation_dtype", "--activation-dtype"},
    Name{"kv_cache_dtype", "--kv-cache-dtype"},
    Name{"kv_cache_memory_bytes", "--kv-cache-memory-bytes"},
    Name{"block_size", "--block-size"},
    Name{"max_num_seqs", "--max-num-seqs"},
    Name{"max_num_batched_tokens", "--max-num-batched-tokens"},
    Name{"max_model_len", "--max-model-len"},
};

// Words of their own in other messages; theirs begin with them.
constexpr std::array kCommonWords = {Name{"isa", "--isa"}, Name{"dtype", "--dtype"}};

// False inside of a longer name, a path or a quotation.
bool ends_word(std::string_view text, size_t at) {
  constexpr std::string_view kWithin =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/.\"'";
  return at >= text.size() || kWithin.find(text[at]) == std::string_view::npos;
}

void replace_words(const Name& name, std::string* text) {
  for (size_t at = text->find(name.field); at != std::string::npos;
       at = text->find(name.field, at + 1)) {
    const size_t end = at + name.field.size();
    if ((at > 0 && !ends_word(*text, at - 1)) || !ends_word(*text, end)) continue;
    text->replace(at, name.field.size(), name.option);
    at += name.option.size() - 1;
  }
}

}  // namespace

bool is_option_error(const Status& error) { return !spec_field_of(error).empty(); }

Status in_option_words(const Status& error) {
  std::string text = message_of(error);
  const std::string field = spec_field_of(error);
  for (const Name& name : kCommonWords) {
    if (field == name.field && text.starts_with(name.field)) {
      text.replace(0, name.field.size(), name.option);
    }
  }
  for (const Name& name : kNames) replace_words(name, &text);
  return Status(error.code(), text);
}

}  // namespace rlgen::cli
