#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/families/family.h"

namespace rlgen::models {

// Every family that is served, one line each in registry.cpp.
std::span<const Family> families();

// The family of that model_type, null when there is none.
const Family* find_family(std::string_view model_type);

// A configuration understood, for one context.
struct ResolvedConfig {
  const Family* family = nullptr;
  DecoderSpec spec;  // rotary resolved for max_model_len; eos_token_ids still empty
  std::string rotary_name;
  int32_t max_model_len = 0;
};

// Reads a parsed config.json (`file` is for messages). `max_model_len` 0 takes
// max_position_embeddings. Errors: kInvalidArgument for a missing or wrong value, or a context that
// the model cannot have; kUnimplemented for another model_type or architecture (the families that
// there are get listed), for an unknown key, and for one that asks for arithmetic we do not have.
StatusOr<ResolvedConfig> resolve_config(const nlohmann::json& document, const std::string& file,
                                        int64_t max_model_len);

}  // namespace rlgen::models
