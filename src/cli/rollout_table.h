#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/rollout.h"

namespace rlgen::cli {

// What a row of the table says of a rollout.
struct TableRow {
  std::string id;
  int32_t sample = 0;
  std::string finish;
  int64_t tokens = 0;
  double logprob_sum = 0.0;
  std::vector<float> first_logprobs;  // of the first few tokens
  std::string text;                   // shortened
};

TableRow table_row(const Rollout& rollout);

// The rows sorted by id (numbers as numbers) and sample, under a heading that says which
// log-probabilities they are.
std::string rollout_table(std::vector<TableRow> rows, LogprobsMode mode);

// `text` on one line, control characters escaped, at most `width` characters long and never cut
// inside one.
std::string shorten(std::string_view text, size_t width);

}  // namespace rlgen::cli
