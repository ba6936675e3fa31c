#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rlgen::models {

// The ids that end a sequence: the union, in rising order, of `eos_token_id` (one id or a list) in
// config.json and generation_config.json, and of the id of tokenizer_config.json's `eos_token`.
// Files other than config.json may be missing. Errors: an id that is no integer in
// [0, vocab_rows); an eos_token that has no id (kInvalidArgument, naming the file).
StatusOr<std::vector<int32_t>> read_stop_ids(const std::string& folder,
                                             const nlohmann::json& config, int32_t vocab_rows);

// The id of `token` in the text of a tokenizer.json: among its added_tokens, else in model.vocab
// (an object of ids). Reads no further than needed. Nothing when it is not there; kInvalidArgument
// when the text is not JSON.
StatusOr<std::optional<int64_t>> find_token_id(std::string_view tokenizer_json,
                                               std::string_view token, const std::string& file);

}  // namespace rlgen::models
