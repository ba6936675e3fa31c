#include "cli/diff/rollout_diff.h"

#include <algorithm>
#include <cmath>

namespace rlgen::cli {
namespace {

struct FirstId {
  int64_t position = 0;
  std::optional<int32_t> left, right;
};

std::optional<FirstId> first_different(const std::vector<int32_t>& left,
                                       const std::vector<int32_t>& right) {
  const auto [at, other] = std::ranges::mismatch(left, right);
  if (at == left.end() && other == right.end()) return std::nullopt;
  FirstId first{.position = at - left.begin(), .left = {}, .right = {}};
  if (at != left.end()) first.left = *at;
  if (other != right.end()) first.right = *other;
  return first;
}

void set_ids(const FirstId& first, LineDifference kind, DifferentLine* line) {
  line->kind = kind;
  line->position = first.position;
  line->left_token = first.left;
  line->right_token = first.right;
}

// Compares the first `count` values; returns the first that differs, or -1.
int64_t compare_logprobs(const ComparedLine& left, const ComparedLine& right, int64_t count,
                         double tolerance, DifferentLine* line) {
  int64_t first = -1;
  if (!left.logprobs || !right.logprobs) return first;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const double distance = std::abs((*left.logprobs)[at] - (*right.logprobs)[at]);
    if (distance <= tolerance) continue;
    if (first < 0) first = i;
    if (distance <= line->largest) continue;
    line->largest = distance;
    line->largest_position = i;
  }
  return first;
}

// Nothing where the lines are equal.
std::optional<DifferentLine> compare_lines(const LineKey& key, const ComparedLine& left,
                                           const ComparedLine& right, double tolerance) {
  DifferentLine line{.key = key};
  for (const auto& [name, value] : left.circumstances) {
    const auto other = right.circumstances.find(name);
    if (other != right.circumstances.end() && other->second != value) {
      line.circumstances.push_back(name);
    }
  }
  if (left.error != right.error) {
    line.kind = LineDifference::kError;
    return line;
  }
  if (const auto prompt = first_different(left.prompt_token_ids, right.prompt_token_ids)) {
    set_ids(*prompt, LineDifference::kPrompt, &line);
    return line;
  }
  const auto tokens = first_different(left.token_ids, right.token_ids);
  const auto shared = tokens ? tokens->position : static_cast<int64_t>(left.token_ids.size());
  const int64_t logprob = compare_logprobs(left, right, shared, tolerance, &line);
  if (tokens) {
    set_ids(*tokens, LineDifference::kTokens, &line);
    return line;
  }
  if (logprob < 0) return std::nullopt;
  line.kind = LineDifference::kLogprobs;
  line.position = logprob;
  return line;
}

}  // namespace

RolloutComparison compare_rollouts(const RolloutLines& left, const RolloutLines& right,
                                   double tolerance) {
  RolloutComparison comparison;
  const auto only = [&](const LineKey& key, LineDifference kind) {
    comparison.different.push_back({.key = key, .kind = kind});
  };
  for (const auto& [key, line] : left) {
    const auto other = right.find(key);
    if (other == right.end()) {
      only(key, LineDifference::kOnlyLeft);
    } else if (auto difference = compare_lines(key, line, other->second, tolerance)) {
      comparison.different.push_back(*std::move(difference));
    } else {
      ++comparison.equal;
      const bool compared = line.logprobs && other->second.logprobs;
      if (!compared && line.error.empty()) ++comparison.without_logprobs;
    }
  }
  for (const auto& [key, line] : right) {
    if (!left.contains(key)) only(key, LineDifference::kOnlyRight);
  }
  std::ranges::stable_sort(comparison.different, {}, &DifferentLine::key);
  return comparison;
}

}  // namespace rlgen::cli
