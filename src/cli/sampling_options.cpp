#include "cli/sampling_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/option_words.h"
#include "contract/sampling_json.h"
#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

constexpr std::array kOptions = {
    SamplingOption{"--n", "n", SamplingKind::kNumber, "samples of each prompt (1)"},
    SamplingOption{"--temperature", "temperature", SamplingKind::kNumber,
                   "divides the logits; 0 is greedy (1)"},
    SamplingOption{"--top-p", "top_p", SamplingKind::kNumber,
                   "keep the likeliest tokens up to that mass (1: off)"},
    SamplingOption{"--top-k", "top_k", SamplingKind::kNumber,
                   "keep that many likeliest tokens (-1 and 0: off)"},
    SamplingOption{"--min-p", "min_p", SamplingKind::kNumber,
                   "keep tokens of at least that share of the best one's probability (0: off)"},
    SamplingOption{"--repetition-penalty", "repetition_penalty", SamplingKind::kNumber,
                   "over prompt and output (1: off)"},
    SamplingOption{"--presence-penalty", "presence_penalty", SamplingKind::kNumber,
                   "over the output (0: off)"},
    SamplingOption{"--frequency-penalty", "frequency_penalty", SamplingKind::kNumber,
                   "over the output (0: off)"},
    SamplingOption{"--max-tokens", "max_tokens", SamplingKind::kNumber,
                   "tokens to generate at most (256)"},
    SamplingOption{"--min-tokens", "min_tokens", SamplingKind::kNumber,
                   "nothing stops before that many tokens (0)"},
    SamplingOption{"--output-prefix-len", "output_prefix_len", SamplingKind::kNumber,
                   "that many last ids of each prompt are earlier output (0)"},
    SamplingOption{"--stop", "stop", SamplingKind::kTextList, "texts that end the output"},
    SamplingOption{"--stop-token-ids", "stop_token_ids", SamplingKind::kIdList,
                   "token ids that end the output"},
    SamplingOption{"--include-stop-str-in-output", "include_stop_str_in_output",
                   SamplingKind::kFlag, "keep what stopped in the text"},
    SamplingOption{"--ignore-eos", "ignore_eos", SamplingKind::kFlag,
                   "the model's end-of-sequence tokens do not stop"},
    SamplingOption{"--bad-words", "bad_words", SamplingKind::kTextList,
                   "texts that are never generated"},
    SamplingOption{"--logprobs", "logprobs", SamplingKind::kNumber,
                   "best alternatives to return for each token (0)"},
    SamplingOption{"--prompt-logprobs", "prompt_logprobs", SamplingKind::kNumber,
                   "log-probabilities over the prompt, with that many alternatives (off)"},
    SamplingOption{"--routed-experts-prompt-start", "routed_experts_prompt_start",
                   SamplingKind::kNumber, "routes of earlier tokens are not returned (0)"},
    SamplingOption{"--logprobs-mode", "logprobs_mode", SamplingKind::kText,
                   "raw, tempered or processed (processed)"},
};

}  // namespace

std::span<const SamplingOption> sampling_options() { return kOptions; }

bool holds_token_ids(const GivenSampling& given) {
  return std::ranges::any_of(kOptions, [&](const SamplingOption& option) {
    return option.key == given.key && option.kind == SamplingKind::kIdList;
  });
}

SamplingParams command_line_defaults() {
  SamplingParams sampling;
  sampling.max_tokens = 256;
  return sampling;
}

StatusOr<SamplingParams> apply_sampling(const SamplingParams& model_defaults,
                                        const std::vector<GivenSampling>& given) {
  std::vector<OptionName> names;
  for (const SamplingOption& option : kOptions) names.push_back({option.key, option.name});
  SamplingParams sampling = model_defaults;
  for (const GivenSampling& option : given) {
    const nlohmann::json object = {{option.key, nlohmann::json::parse(option.json)}};
    const Status merged = merge_sampling_json(object, "", &sampling);
    RLGEN_RETURN_IF_ERROR(spec_error(option.key, in_option_words(merged, names)));
  }
  return sampling;
}

Status in_sampling_words(const Status& error, const std::vector<GivenSampling>& given,
                         std::span<const std::string> own) {
  const auto is_own = [&](std::string_view key) { return std::ranges::count(own, key) > 0; };
  std::vector<OptionName> names;
  for (const GivenSampling& option : given) {
    if (is_own(option.key)) continue;
    names.push_back({option.key, option.option});
    // What the texts of --bad-words become.
    if (option.key == "bad_words" && !is_own("bad_words_ids")) {
      names.push_back({"bad_words_ids", option.option});
    }
  }
  return in_option_words(error, names);
}

Status check_token_ids(const std::vector<GivenSampling>& given, int32_t vocab_size) {
  for (const GivenSampling& option : given) {
    if (!holds_token_ids(option)) continue;
    for (const nlohmann::json& id : nlohmann::json::parse(option.json)) {
      if (id >= 0 && id < vocab_size) continue;
      return spec_error(option.key, absl::InvalidArgumentError(
                                        fmt::format("{} is {}; it must be a token id from 0 to {}",
                                                    option.option, id.dump(), vocab_size - 1)));
    }
  }
  return absl::OkStatus();
}

}  // namespace rlgen::cli
