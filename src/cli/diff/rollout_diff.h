#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace rlgen::cli {

// A line of a rollout file, as far as lines are compared.
struct ComparedLine {
  std::vector<int32_t> prompt_token_ids;
  std::vector<int32_t> token_ids;
  std::optional<std::vector<double>> logprobs;  // one a token, where the line has them
  std::string error;                            // its message; empty: none
  // JSON text of what may explain a difference, by key: seed, sampling, numerics, ...
  std::map<std::string, std::string> circumstances;
};

// Id and sample; a prompt that failed as a whole has sample -1.
using LineKey = std::pair<std::string, int32_t>;
using RolloutLines = std::map<LineKey, ComparedLine>;

// Reads a file that generate or score wrote. kInvalidArgument names file, line and key, and a key
// (id, sample) that was there before.
StatusOr<RolloutLines> read_rollout_lines(const std::string& path);

enum class LineDifference { kOnlyLeft, kOnlyRight, kError, kPrompt, kTokens, kLogprobs };

// How two lines of one key differ. Positions count from 0 in token_ids (kPrompt: in the prompt).
struct DifferentLine {
  LineKey key;
  LineDifference kind = LineDifference::kTokens;
  // kPrompt, kTokens: the first place where ids differ or one list has ended. kLogprobs: the first
  // value that differs.
  int64_t position = 0;
  std::optional<int32_t> left_token, right_token;  // there; unset where the list has ended
  // Over the log-probabilities before the first different token.
  double largest = 0.0;
  int64_t largest_position = -1;           // -1: all are equal
  std::vector<std::string> circumstances;  // that differ, by key
};

struct RolloutComparison {
  int64_t equal = 0;
  int64_t without_logprobs = 0;          // of the equal ones: one side has none
  std::vector<DifferentLine> different;  // in the order of their keys
};

// Log-probabilities differ that are further apart than `tolerance`.
RolloutComparison compare_rollouts(const RolloutLines& left, const RolloutLines& right,
                                   double tolerance);

// Prints what compare_rollouts found, as text or JSON; names are those of the files.
void print_rollout_comparison(const RolloutComparison& comparison, const std::string& left,
                              const std::string& right, bool json);

}  // namespace rlgen::cli
