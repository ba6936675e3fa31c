#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/log.h"
#include "base/status.h"
#include "contract/config/generation_config.h"
#include "generation/rlgen_generation.h"

namespace rlgen {

struct OpenOptions {
  // Of the trainer's tokenizer; not set: the checkpoint's.
  std::optional<TokenizerFacts> tokenizer;
  LogSink log;
};

// The backend "rlgen" with engines of this process, as the section policy.generation asks for them:
// loads the model, with its tokenizer where it has one, and serves it as version 0. Weights come
// through generation().updates(), or from a trainer's process at ipc_endpoint(), which is another
// one for every backend. Blocks as long as loading takes.
//
// Errors: those of read_generation_config; kNotFound for a model that is not there; those of its
// tokenizer and of RlgenGeneration::start.
StatusOr<std::unique_ptr<generation::RlgenGeneration>> open_generation(
    const nlohmann::json& section, OpenOptions options = {});

}  // namespace rlgen
