#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace rlgen::cli {

// Adds what decides how a checkpoint looks in memory. Returns --model.
CLI::Option* add_model_options(CLI::App* app, EngineOptions* options);

// Adds those, --model required, and what decides how it runs.
void add_engine_options(CLI::App* app, EngineOptions* options);

}  // namespace rlgen::cli
