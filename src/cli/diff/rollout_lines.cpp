#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/diff/rollout_diff.h"
#include "generation/json_line.h"
#include "generation/line_reader.h"
#include "generation/rollout_line.h"

namespace rlgen::cli {
namespace {

using generation::to_json_text;
using nlohmann::ordered_json;

constexpr std::array kCircumstances = {"seed",         "sampling",       "logprobs_mode",
                                       "numerics",     "weight_version", "weight_versions",
                                       "finish_reason"};

Status wrong(std::string_view key, std::string_view wanted) {
  return absl::InvalidArgumentError(fmt::format("{} must be {}", key, wanted));
}

StatusOr<std::string> line_error(const ordered_json& object) {
  const auto error = object.find("error");
  if (error == object.end() || error->is_null()) return std::string();
  return to_json_text(*error);
}

Status read_logprobs(const ordered_json& object, ComparedLine* line) {
  const auto found = object.find("logprobs");
  if (found == object.end()) return absl::OkStatus();
  const size_t tokens = line->token_ids.size();
  const auto wanted = fmt::format("a list of {} numbers, one a token", tokens);
  if (!found->is_array() || found->size() != tokens) return wrong("logprobs", wanted);
  std::vector<double>& values = line->logprobs.emplace();
  for (const ordered_json& value : *found) {
    if (!value.is_number()) return wrong("logprobs", wanted);
    values.push_back(value.get<double>());
  }
  return absl::OkStatus();
}

// A line with an error need not have anything else.
StatusOr<LineKey> failed_key(const ordered_json& object) {
  const auto id = object.find("id");
  if (id == object.end()) return wrong("id", "there beside an error");
  const auto sample = object.find("sample");
  const bool whole = sample == object.end() || sample->is_null();
  if (!whole && !sample->is_number_unsigned()) return wrong("sample", "a whole number");
  return LineKey{id->is_string() ? id->get<std::string>() : to_json_text(*id),
                 whole ? -1 : sample->get<int32_t>()};
}

StatusOr<std::pair<LineKey, ComparedLine>> read_rollout_line(const ordered_json& object) {
  ComparedLine line;
  for (const char* key : kCircumstances) {
    if (const auto found = object.find(key); found != object.end()) {
      line.circumstances[key] = to_json_text(*found);
    }
  }
  RLGEN_ASSIGN_OR_RETURN(line.error, line_error(object));
  if (!line.error.empty()) {
    RLGEN_ASSIGN_OR_RETURN(LineKey key, failed_key(object));
    return std::pair(std::move(key), std::move(line));
  }
  RLGEN_ASSIGN_OR_RETURN(auto score, generation::read_score_line(object));
  line.prompt_token_ids = std::move(score.prompt_token_ids);
  line.token_ids = std::move(score.token_ids);
  RLGEN_RETURN_IF_ERROR(read_logprobs(object, &line));
  return std::pair(LineKey{std::move(score.id), score.sample}, std::move(line));
}

Status add_line(const generation::LineReader::Line& line, RolloutLines* lines) {
  RLGEN_ASSIGN_OR_RETURN(const ordered_json object, generation::parse_json_line(line.text));
  RLGEN_ASSIGN_OR_RETURN(auto read, read_rollout_line(object));
  const LineKey key = read.first;
  if (lines->emplace(std::move(read)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("id {} sample {} was there before", key.first, key.second));
}

}  // namespace

StatusOr<RolloutLines> read_rollout_lines(const std::string& path) {
  RLGEN_ASSIGN_OR_RETURN(auto reader, generation::LineReader::open(path));
  RolloutLines lines;
  for (;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto line, reader.next());
    if (!line) return lines;
    if (generation::is_blank(line->text)) continue;
    const Status added = add_line(*line, &lines);
    if (!added.ok()) return annotate(added, fmt::format("{} line {}", path, line->number + 1));
  }
}

}  // namespace rlgen::cli
