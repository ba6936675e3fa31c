#include "cli/session.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "backends/local/local_launcher.h"
#include "backends/local/text_side.h"
#include "models/model.h"

namespace rlgen::cli {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

LogSink make_log(LogLevel level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("rlgen", std::move(sink));
  logger->set_level(spdlog_level(level));
  logger->set_pattern("%H:%M:%S %l: %v");
  return [logger](LogLevel at, std::string_view message) {
    logger->log(spdlog_level(at), spdlog::string_view_t(message.data(), message.size()));
  };
}

StatusOr<std::vector<int32_t>> Session::encode(const generation::Prompt& prompt) const {
  if (text) return text->encode(prompt);
  if (const auto* ids = std::get_if<generation::TokenPrompt>(&prompt)) return *ids;
  return no_text;
}

StatusOr<Session> open_session(const EngineOptions& options, const SessionCheck& check) {
  Session session;
  RLGEN_ASSIGN_OR_RETURN(session.folder, models::resolve_model_path(options.spec.model));
  auto text = generation::TextSession::open(session.folder);
  if (text.ok()) {
    session.text = *std::move(text);
  } else if (text.status().code() == absl::StatusCode::kNotFound) {
    session.no_text = annotate(text.status(), "the model has no tokenizer, give prompt_token_ids");
  } else {
    return text.status();
  }
  const LogSink log = make_log(options.log_level);
  generation::GenerationOptions generation_options;
  generation_options.log = log;
  generation_options.bad_words = generation::TextSession::bad_words(session.text);
  ShardSpec spec = options.spec;
  spec.model = session.folder;
  backends::ShardCheck check_shard;
  if (check) check_shard = [&](const ShardInfo& info) { return check(session, info); };
  backends::LocalLauncher launcher(backends::open_text_side, nullptr, std::move(check_shard));
  RLGEN_ASSIGN_OR_RETURN(session.generation, generation::Generation::start(
                                                 launcher, {spec}, std::move(generation_options)));
  return session;
}

}  // namespace rlgen::cli
