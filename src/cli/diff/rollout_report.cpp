#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/diff/rollout_diff.h"
#include "cli/progress.h"

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

std::string_view difference_name(LineDifference kind) {
  switch (kind) {
    case LineDifference::kOnlyLeft:
      return "only_left";
    case LineDifference::kOnlyRight:
      return "only_right";
    case LineDifference::kError:
      return "error";
    case LineDifference::kPrompt:
      return "prompt";
    case LineDifference::kTokens:
      return "tokens";
    case LineDifference::kLogprobs:
      break;
  }
  return "logprobs";
}

std::string id_text(const std::optional<int32_t>& token) {
  return token ? std::to_string(*token) : "its end";
}

std::string logprob_text(const DifferentLine& line) {
  return fmt::format("largest log-probability difference {:.3g} at {}", line.largest,
                     line.largest_position);
}

std::string what_text(const DifferentLine& line, const std::string& left,
                      const std::string& right) {
  switch (line.kind) {
    case LineDifference::kOnlyLeft:
      return "only in " + left;
    case LineDifference::kOnlyRight:
      return "only in " + right;
    case LineDifference::kError:
      return "other errors";
    case LineDifference::kPrompt:
      return fmt::format("other prompts, first at position {}: {} and {}", line.position,
                         id_text(line.left_token), id_text(line.right_token));
    case LineDifference::kTokens:
      return fmt::format(
          "token {} is {} and {}; before it {}", line.position, id_text(line.left_token),
          id_text(line.right_token),
          line.largest_position < 0 ? "all log-probabilities are equal" : logprob_text(line));
    case LineDifference::kLogprobs:
      break;
  }
  return fmt::format("equal tokens, other log-probabilities from token {} on; {}", line.position,
                     logprob_text(line));
}

std::string sample_text(const LineKey& key) {
  return key.second < 0 ? "(whole prompt)" : fmt::format("sample {}", key.second);
}

void print_comparison(const RolloutComparison& comparison, const std::string& left,
                      const std::string& right) {
  for (const DifferentLine& line : comparison.different) {
    std::string also;
    if (!line.circumstances.empty()) {
      also = fmt::format(" (other {})", fmt::join(line.circumstances, ", "));
    }
    fmt::print("{} {}: {}{}\n", line.key.first, sample_text(line.key), what_text(line, left, right),
               also);
  }
  fmt::print("{} equal, {} different\n", counted(comparison.equal, "rollout"),
             comparison.different.size());
  if (comparison.without_logprobs > 0) {
    fmt::print("{} of the equal ones have no log-probabilities on one side\n",
               comparison.without_logprobs);
  }
}

ordered_json line_json(const DifferentLine& line) {
  ordered_json object = {{"id", line.key.first},
                         {"sample", line.key.second},
                         {"kind", difference_name(line.kind)},
                         {"other", line.circumstances}};
  if (line.key.second < 0) object["sample"] = nullptr;
  const bool placed = line.kind >= LineDifference::kPrompt;
  if (placed) object["position"] = line.position;
  if (placed && line.kind != LineDifference::kLogprobs) {
    object["left_token"] = line.left_token ? ordered_json(*line.left_token) : nullptr;
    object["right_token"] = line.right_token ? ordered_json(*line.right_token) : nullptr;
  }
  if (line.largest_position >= 0) {
    object["largest_logprob_difference"] = line.largest;
    object["largest_logprob_position"] = line.largest_position;
  }
  return object;
}

}  // namespace

void print_rollout_comparison(const RolloutComparison& comparison, const std::string& left,
                              const std::string& right, bool json) {
  if (!json) return print_comparison(comparison, left, right);
  auto lines = ordered_json::array();
  for (const DifferentLine& line : comparison.different) lines.push_back(line_json(line));
  const ordered_json object = {{"left", left},
                               {"right", right},
                               {"equal", comparison.different.empty()},
                               {"equal_rollouts", comparison.equal},
                               {"without_logprobs", comparison.without_logprobs},
                               {"different", std::move(lines)}};
  fmt::print("{}\n", object.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace rlgen::cli
