#include "contract/config/generation_sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/float_mode.h"
#include "contract/error_type.h"
#include "contract/json_object.h"

namespace rlgen {
namespace {

Status not_legal(std::string_view path, std::string_view prefix, std::string_view key, double value,
                 std::string_view legal) {
  return absl::InvalidArgumentError(
      fmt::format("{}.{}{} is {}; it must be {}", path, prefix, key, value, legal));
}

bool is_float(double value) {
  return std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace

StatusOr<GenerationSamplingParams> GenerationSamplingParams::from_generation_config(
    const nlohmann::json& config, std::string_view path) {
  for (const char* key : {"temperature", "top_p", "top_k"}) {
    if (config.is_object() && !config.contains(key)) {
      return with_error_type(absl::InvalidArgumentError(fmt::format("{}.{} is missing", path, key)),
                             "KeyError");
    }
  }
  GenerationSamplingParams params;
  JsonObject object(config, std::string(path));
  object.need("temperature", &params.temperature);
  object.need("top_p", &params.top_p);
  object.need("top_k", &params.top_k);
  RLGEN_RETURN_IF_ERROR(object.status());
  RLGEN_RETURN_IF_ERROR(validate(params, path));
  return params;
}

Status validate(const GenerationSamplingParams& params, std::string_view path,
                std::string_view prefix) {
  const double temperature = params.temperature;
  if (temperature != 0.0 && !(temperature >= kSmallestTemperature && is_float(temperature))) {
    return not_legal(path, prefix, "temperature", temperature,
                     fmt::format("0 (greedy) or from {} on", kSmallestTemperature));
  }
  const bool is_share = params.top_p <= 1.0 && nearest_float(params.top_p) > 0.0f;
  if (!is_share) return not_legal(path, prefix, "top_p", params.top_p, "above 0 and at most 1");
  if (params.top_k && *params.top_k != -1 && *params.top_k < 1) {
    return not_legal(path, prefix, "top_k", *params.top_k, "null or -1 (no filter), or at least 1");
  }
  return absl::OkStatus();
}

void apply(const GenerationSamplingParams& params, bool greedy, SamplingParams* sampling) {
  sampling->temperature = greedy ? 0.0f : nearest_float(params.temperature);
  sampling->top_p = greedy ? 1.0f : nearest_float(params.top_p);
  sampling->top_k = greedy ? -1 : params.top_k.value_or(-1);
}

}  // namespace rlgen
