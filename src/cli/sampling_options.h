#pragma once

#include <span>
#include <string_view>

namespace rlgen::cli {

enum class SamplingKind { kNumber, kText, kTextList, kIdList, kFlag };

// A sampling parameter that generate has an option for; named as vLLM names it.
struct SamplingOption {
  std::string_view name;  // "--top-p"
  std::string_view key;   // "top_p"
  SamplingKind kind;
  std::string_view help;
};

// All of them, max_tokens before min_tokens.
std::span<const SamplingOption> sampling_options();

}  // namespace rlgen::cli
