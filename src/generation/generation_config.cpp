#include "generation/generation_config.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "contract/sampling_json.h"
#include "generation/json_line.h"

namespace rlgen::generation {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 6> kKeys = {
    {{"temperature", "temperature"},
     {"top_k", "top_k"},
     {"top_p", "top_p"},
     {"min_p", "min_p"},
     {"repetition_penalty", "repetition_penalty"},
     {"max_new_tokens", "max_tokens"}}};

}  // namespace

StatusOr<SamplingParams> apply_generation_config(std::string_view text,
                                                 const SamplingParams& base) {
  const auto config = parse_json_line(text);
  if (!config.ok()) return annotate(config.status(), "generation_config.json");
  auto found = nlohmann::json::object();
  for (const auto& [key, parameter] : kKeys) {
    const auto value = config->find(key);
    if (value != config->end() && !value->is_null()) found[parameter] = nlohmann::json(*value);
  }
  SamplingParams sampling = base;
  RLGEN_RETURN_IF_ERROR(
      annotate(merge_sampling_json(found, "", &sampling), "generation_config.json"));
  return sampling;
}

}  // namespace rlgen::generation
