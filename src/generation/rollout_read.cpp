#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "contract/routes/routed_experts.h"
#include "contract/sampling_json.h"
#include "generation/json_line.h"
#include "generation/rollout_line.h"

namespace rlgen::generation {
namespace {

using nlohmann::ordered_json;

constexpr int32_t kMostSample = std::numeric_limits<int32_t>::max() - 1;

Status missing(std::string_view key) {
  return absl::InvalidArgumentError(fmt::format("key \"{}\" is missing", key));
}

Status read(const ordered_json& object, std::string_view key, std::string* out) {
  const auto found = object.find(key);
  if (found == object.end()) return missing(key);
  if (!found->is_string()) return wrong_value(key, *found, "a string");
  *out = found->get<std::string>();
  return absl::OkStatus();
}

Status read(const ordered_json& object, std::string_view key, int64_t* out) {
  const auto found = object.find(key);
  if (found == object.end()) return missing(key);
  const bool fits =
      found->is_number_integer() && !(found->is_number_unsigned() &&
                                      found->get<uint64_t>() > std::numeric_limits<int64_t>::max());
  if (!fits) return wrong_value(key, *found, "a whole number");
  *out = found->get<int64_t>();
  return absl::OkStatus();
}

Status read(const ordered_json& object, std::string_view key, std::vector<int32_t>* out) {
  const auto found = object.find(key);
  if (found == object.end()) return missing(key);
  if (!found->is_array()) return wrong_value(key, *found, "a list of token ids");
  out->clear();
  out->reserve(found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    const ordered_json& id = (*found)[i];
    const bool fits =
        id.is_number_unsigned() &&
        id.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
    if (!fits) return wrong_value(fmt::format("{}[{}]", key, i), id, "a token id");
    out->push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

Status read_sampling(const ordered_json& object, SamplingParams* out) {
  const auto found = object.find("sampling");
  if (found == object.end()) return missing("sampling");
  return merge_sampling_json(nlohmann::json(*found), "sampling", out);
}

Status read_logprob_count(const ordered_json& object, size_t tokens) {
  const auto found = object.find("logprobs");
  if (found == object.end()) return missing("logprobs");
  if (!found->is_array() || found->size() != tokens) {
    return wrong_value("logprobs", *found,
                       fmt::format("a list of {} numbers, one a token", tokens));
  }
  for (size_t i = 0; i < tokens; ++i) {
    if (!(*found)[i].is_number())
      return wrong_value(fmt::format("logprobs[{}]", i), (*found)[i], "a number");
  }
  return absl::OkStatus();
}

StatusOr<GivenRoutes> read_routes(const ordered_json& object, const SamplingParams& sampling) {
  const auto found = object.find("routed_experts");
  if (found == object.end()) return missing("routed_experts");
  if (const int32_t start = sampling.routed_experts_prompt_start; start > 0) {
    return absl::InvalidArgumentError(
        fmt::format("routed_experts begin with token {} (sampling.routed_experts_prompt_start); to "
                    "be replayed they must begin with the first",
                    start));
  }
  RLGEN_ASSIGN_OR_RETURN(HostTensor routes, decode_routed_experts_json(nlohmann::json(*found)));
  return std::make_shared<const HostTensor>(std::move(routes));
}

Status check_schema(const ordered_json& object) {
  int64_t schema = 0;
  RLGEN_RETURN_IF_ERROR(read(object, "schema", &schema));
  if (schema == kRolloutSchema) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("schema is {}; this program reads {}", schema, kRolloutSchema));
}

// The layers of a nested list of routes, where its first token says.
std::optional<int64_t> layers_of_list(const ordered_json& list) {
  if (list.empty() || !list[0].is_array()) return std::nullopt;
  return static_cast<int64_t>(list[0].size());
}

Status read_stored_routes(const ordered_json& object, StoredLine* line) {
  if (object.contains("given_routed_experts")) {
    RLGEN_RETURN_IF_ERROR(read(object, "given_routed_experts", &line->given_routes));
  }
  const auto found = object.find("routed_experts");
  if (found == object.end()) return absl::OkStatus();
  if (found->is_array()) {
    line->routes = StoredRoutes{.format = RouteFormat::kList, .layers = layers_of_list(*found)};
    return absl::OkStatus();
  }
  if (!found->is_string()) return wrong_value("routed_experts", *found, "a string or a list");
  RLGEN_ASSIGN_OR_RETURN(const RouteEnvelope open,
                         open_route_envelope(found->get_ref<const std::string&>()));
  line->routes = StoredRoutes{.format = RouteFormat::kBase64, .layers = open.shape[1]};
  return absl::OkStatus();
}

StatusOr<StoredLine> read_stored(std::string_view text) {
  RLGEN_ASSIGN_OR_RETURN(const ordered_json object, parse_json_line(text));
  StoredLine line;
  RLGEN_RETURN_IF_ERROR(check_schema(object));
  RLGEN_RETURN_IF_ERROR(read(object, "id", &line.id));
  RLGEN_RETURN_IF_ERROR(read(object, "run_seed", &line.run_seed));
  std::string finish;
  RLGEN_RETURN_IF_ERROR(read(object, "finish_reason", &finish));
  line.failed = finish == "error";
  if (const auto sample = object.find("sample"); sample != object.end() && sample->is_null()) {
    line.input_line = 0;
    RLGEN_RETURN_IF_ERROR(read(object, "input_line", &*line.input_line));
    return line;
  }
  int64_t sample = 0;
  RLGEN_RETURN_IF_ERROR(read(object, "sample", &sample));
  if (sample < 0 || sample > kMostSample) {
    return wrong_value("sample", object.at("sample"), "a whole number from 0, below n");
  }
  line.sample = static_cast<int32_t>(sample);
  RLGEN_RETURN_IF_ERROR(read(object, "prompt_token_ids", &line.prompt_token_ids));
  RLGEN_RETURN_IF_ERROR(read_sampling(object, &line.sampling));
  RLGEN_RETURN_IF_ERROR(read(object, "numerics", &line.numerics));
  std::vector<int32_t> tokens;
  RLGEN_RETURN_IF_ERROR(read(object, "token_ids", &tokens));
  RLGEN_RETURN_IF_ERROR(read_logprob_count(object, tokens.size()));
  line.tokens = static_cast<int64_t>(tokens.size());
  RLGEN_RETURN_IF_ERROR(read_stored_routes(object, &line));
  return line;
}

}  // namespace

StatusOr<StoredLine> read_stored_line(std::string_view text) {
  StatusOr<StoredLine> line = read_stored(text);
  if (!line.ok()) return absl::DataLossError(message_of(line.status()));
  return line;
}

StatusOr<ScoreLine> read_score_line(const ordered_json& object, bool with_routes) {
  ScoreLine line;
  if (object.contains("schema")) RLGEN_RETURN_IF_ERROR(check_schema(object));
  if (const auto id = object.find("id"); id != object.end()) {
    line.id = id->is_string() ? id->get<std::string>() : to_json_text(*id);
  }
  if (const auto sample = object.find("sample"); sample != object.end()) {
    const bool fits = sample->is_number_unsigned() && sample->get<uint64_t>() <= kMostSample;
    if (!fits) return wrong_value("sample", *sample, "a whole number from 0, below n");
    line.sample = sample->get<int32_t>();
  }
  RLGEN_RETURN_IF_ERROR(read(object, "prompt_token_ids", &line.prompt_token_ids));
  RLGEN_RETURN_IF_ERROR(read(object, "token_ids", &line.token_ids));
  if (object.contains("sampling")) {
    RLGEN_RETURN_IF_ERROR(read_sampling(object, &line.sampling));
  }
  if (const auto mode = object.find("logprobs_mode"); mode != object.end()) {
    const nlohmann::json option = {{"logprobs_mode", nlohmann::json(*mode)}};
    RLGEN_RETURN_IF_ERROR(merge_sampling_json(option, "", &line.sampling));
  }
  if (with_routes) {
    RLGEN_ASSIGN_OR_RETURN(line.routed_experts, read_routes(object, line.sampling));
  }
  return line;
}

}  // namespace rlgen::generation
