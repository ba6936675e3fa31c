#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "contract/sampling_params.h"

namespace rlgen {

// The sampling of one rollout, given explicitly by whoever asks for it. Whether it is greedy is
// said beside it.
struct GenerationSamplingParams {
  double temperature = 1.0;      // 0, or at least kSmallestTemperature
  double top_p = 1.0;            // in (0, 1]; 1 means off
  std::optional<int32_t> top_k;  // not set and -1 mean off, else at least 1

  // temperature, top_p and top_k of a GenerationConfig as the trainer has it (a JSON object); the
  // val_ keys are not looked at. A missing key has error type KeyError; kInvalidArgument names
  // "<path>.<key>" and a value that cannot be.
  static StatusOr<GenerationSamplingParams> from_generation_config(
      const nlohmann::json& config, std::string_view path = "policy.generation");

  bool operator==(const GenerationSamplingParams&) const = default;
};

// kInvalidArgument names "<path>.<prefix>temperature" and so on, with the value and what is legal.
Status validate(const GenerationSamplingParams& params, std::string_view path,
                std::string_view prefix = "");

// Sets temperature, top_p and top_k of `sampling`; greedy: temperature 0 and no filter, since the
// largest logit is taken. `params` is valid.
void apply(const GenerationSamplingParams& params, bool greedy, SamplingParams* sampling);

}  // namespace rlgen
