#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/options.h"

namespace rlgen::cli {

// What CLI11 delivers of `diff` that is read here.
struct RawDiff {
  std::string prompt;
  std::string prompt_token_ids;
  std::vector<std::string> left, right;
};

void add_diff(CLI::App* app, DiffOptions* options, RawDiff* raw);

// Fills in what `raw` holds, after parsing. kInvalidArgument names the option.
Status finish_diff(const CLI::App& app, const RawDiff& raw, DiffOptions* options);

}  // namespace rlgen::cli
