#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/options.h"

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

// True for an option whose values are token ids.
bool holds_token_ids(const GivenSampling& given);

// `error`, which concerns one prompt, with the names of the options in `given` in place of the
// parameters that they set, but for those in `own`, which the prompt's line set itself.
Status in_sampling_words(const Status& error, const std::vector<GivenSampling>& given,
                         std::span<const std::string> own);

// Whether the token ids among the options are ids of a model with `vocab_size` of them: an option
// error (option_words.h) that names the option, the id and the range.
Status check_token_ids(const std::vector<GivenSampling>& given, int32_t vocab_size);

}  // namespace rlgen::cli
