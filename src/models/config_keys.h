#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace rlgen::models {

// What a key of config.json that no family code has read means for the forward pass.
enum class KeyJudgement {
  kHarmless,           // training, bookkeeping or defaults of sampling: any value, or this value
  kChangesArithmetic,  // known to change what a model computes
  kUnknown,
};

// `value` matters for keys that are harmless only while switched off ("use_mrope": false).
KeyJudgement judge_key(std::string_view key, const nlohmann::json& value);

// What a key of the kChangesArithmetic kind asks for, in a few words.
std::string_view describe_key(std::string_view key);

}  // namespace rlgen::models
