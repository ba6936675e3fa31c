#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "cli/options.h"
#include "generation/generation.h"
#include "generation/text_session.h"

namespace rlgen::cli {

// Messages of the library on standard error, from `level` up.
LogSink make_log(LogLevel level);

// A model that is loaded and ready.
struct Session {
  std::string folder;
  // Null where the checkpoint has no tokenizer; `no_text` says so then.
  std::shared_ptr<const generation::TextSession> text;
  Status no_text;
  std::unique_ptr<generation::Generation> generation;

  // The ids of a prompt; `no_text` for text without a tokenizer.
  StatusOr<std::vector<int32_t>> encode(const generation::Prompt& prompt) const;
};

// Looks at what a session will be before the weights are loaded: everything but `generation` is
// there. An error ends the opening.
using SessionCheck = std::function<Status(const Session& session, const ShardInfo& info)>;

// Finds the model's folder, its text side (unless it has none) and starts a shard.
StatusOr<Session> open_session(const EngineOptions& options, const SessionCheck& check = {});

}  // namespace rlgen::cli
