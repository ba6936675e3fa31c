#include "api/open_generation.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/local/local_launcher.h"
#include "backends/local/text_side.h"
#include "base/cpu.h"
#include "base/thread_pool.h"
#include "contract/spec_error.h"
#include "generation/seeds.h"
#include "generation/shard_setup.h"
#include "generation/text_session.h"
#include "models/model.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"

namespace rlgen {
namespace {

using generation::IpcWeights;
using generation::RlgenGeneration;
using generation::TextSession;

StatusOr<IpcWeights> receive_weights(const GenerationConfig& config) {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("there is no folder for temporary files: {}", error.message()));
  }
  const std::string run =
      fmt::format("{:x}-{:x}", generation::draw_seed(), generation::draw_seed());
  IpcWeights ipc;
  RLGEN_ASSIGN_OR_RETURN(ipc.endpoint, refit::ipc_endpoint(folder.string(), run, "0"));
  const int32_t asked = generation::shard_specs(config).front().num_threads;
  const int32_t threads = asked > 0 ? asked : usable_cpus();
  ipc.receive = [endpoint = ipc.endpoint, threads](const UpdateSpec& spec, WeightSink& sink) {
    ThreadPool pool(threads);
    refit::IpcReceiveOptions options;
    options.pool = &pool;
    return refit::receive_ipc(endpoint, spec, sink, options).status();
  };
  return ipc;
}

}  // namespace

StatusOr<std::unique_ptr<RlgenGeneration>> open_generation(const nlohmann::json& section,
                                                           OpenOptions options) {
  RLGEN_ASSIGN_OR_RETURN(GenerationConfig config, read_generation_config(section));
  auto folder = models::resolve_model_path(config.model_name);
  if (!folder.ok()) return in_config_words(spec_error("model", folder.status()));
  config.rlgen_cfg.shard.model = *std::move(folder);
  RLGEN_ASSIGN_OR_RETURN(const auto text, TextSession::open_if_there(config.rlgen_cfg.shard.model));

  backends::LocalLauncher launcher(backends::open_text_side);
  generation::RlgenGenerationParts parts{.launcher = &launcher};
  parts.tokenizer = std::move(options.tokenizer);
  parts.options.log = std::move(options.log);
  parts.options.bad_words = TextSession::bad_words(text);
  if (text) parts.pad_token_id = text->pad_token_id();
  RLGEN_ASSIGN_OR_RETURN(parts.ipc, receive_weights(config));
  return RlgenGeneration::start(std::move(config), std::move(parts));
}

}  // namespace rlgen
