#include "cli/option_words.h"

#include <array>
#include <string>
#include <string_view>

#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

constexpr std::array kNames = {
    OptionName{"num_threads", "--threads"},
    OptionName{"activation_dtype", "--activation-dtype"},
    OptionName{"kv_cache_dtype", "--kv-cache-dtype"},
    OptionName{"kv_cache_memory_bytes", "--kv-cache-memory-bytes"},
    OptionName{"kv_cache_memory_fraction", "--kv-cache-memory-fraction"},
    OptionName{"block_size", "--block-size"},
    OptionName{"max_num_seqs", "--max-num-seqs"},
    OptionName{"max_num_batched_tokens", "--max-num-batched-tokens"},
    OptionName{"max_model_len", "--max-model-len"},
    OptionName{"enable_return_routed_experts", "--enable-return-routed-experts"},
    OptionName{"routed_experts_layers", "--routed-experts-layers"},
};

// Words of their own in other messages; theirs begin with them.
constexpr std::array kCommonWords = {OptionName{"isa", "--isa"}, OptionName{"dtype", "--dtype"}};

// False inside of a longer name, a path or a quotation.
bool ends_word(std::string_view text, size_t at) {
  constexpr std::string_view kWithin =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/.\"'";
  return at >= text.size() || kWithin.find(text[at]) == std::string_view::npos;
}

void replace_words(const OptionName& name, std::string* text) {
  for (size_t at = text->find(name.field); at != std::string::npos;
       at = text->find(name.field, at + 1)) {
    const size_t end = at + name.field.size();
    if ((at > 0 && !ends_word(*text, at - 1)) || !ends_word(*text, end)) continue;
    text->replace(at, name.field.size(), name.option);
    at += name.option.size() - 1;
  }
}

void replace_first_word(const OptionName& name, std::string* text) {
  if (!text->starts_with(name.field) || !ends_word(*text, name.field.size())) return;
  text->replace(0, name.field.size(), name.option);
}

}  // namespace

bool is_option_error(const Status& error) { return !spec_field_of(error).empty(); }

Status in_option_words(const Status& error) {
  std::string text = message_of(error);
  const std::string field = spec_field_of(error);
  for (const OptionName& name : kCommonWords) {
    if (field == name.field) replace_first_word(name, &text);
  }
  for (const OptionName& name : kNames) replace_words(name, &text);
  return with_message(error, text);
}

Status in_option_words(const Status& error, std::span<const OptionName> names) {
  if (error.ok()) return error;
  std::string text = message_of(error);
  for (const OptionName& name : names) {
    const bool unmistakable = name.field.find('_') != std::string_view::npos;
    unmistakable ? replace_words(name, &text) : replace_first_word(name, &text);
  }
  return with_message(error, text);
}

}  // namespace rlgen::cli
