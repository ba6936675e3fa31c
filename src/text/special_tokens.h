#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::text {

// What a checkpoint says about its special tokens beside tokenizer.json.
struct SpecialTokens {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  // JSON object of every named special token (bos_token, eos_token, additional_special_tokens, ...)
  // that is set, in the file's order: what a chat template sees. Unset ones are absent.
  std::string named_json = "{}";
  // JSON array of added tokens for the tokenizer: those of added_tokens_decoder in order of id,
  // then the named ones with "keep": true (nothing to do where tokenizer.json has the token).
  std::string added_json = "[]";
};

// Reads tokenizer_config.json and special_tokens_map.json; either text may be empty. As in
// transformers the map counts only where the configuration has no added_tokens_decoder, and then
// goes first. Errors: kInvalidArgument, naming the file.
StatusOr<SpecialTokens> read_special_tokens(std::string_view config_json,
                                            std::string_view map_json);

}  // namespace rlgen::text
