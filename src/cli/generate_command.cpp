#include <fmt/format.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generate_file.h"
#include "cli/generate_stream.h"
#include "generation/generation_config.h"
#include "models/model.h"

namespace rlgen::cli {
namespace {

// The command line's defaults, the model's over them where asked for, the options over both.
StatusOr<SamplingParams> choose_sampling(const GenerateOptions& options) {
  SamplingParams defaults = command_line_defaults();
  if (options.generation_config == GenerationConfigUse::kModel) {
    RLGEN_ASSIGN_OR_RETURN(const std::string folder,
                           models::resolve_model_path(options.engine.spec.model));
    RLGEN_ASSIGN_OR_RETURN(const std::string json, read_file(folder + "/generation_config.json"));
    RLGEN_ASSIGN_OR_RETURN(defaults, generation::apply_generation_config(json, defaults));
  }
  return apply_sampling(defaults, options.sampling);
}

// Said before the model is loaded; opening the file says it again without a race.
Status check_output(const GenerateOptions& options) {
  RLGEN_RETURN_IF_ERROR(generation::check_not_input("--prompts", options.prompts, options.output));
  const bool kept = options.output.empty() || options.resume || options.overwrite;
  if (kept || ::access(options.output.c_str(), F_OK) != 0) return absl::OkStatus();
  return absl::AlreadyExistsError(fmt::format(
      "output file {} exists; --resume goes on with it, --overwrite replaces it", options.output));
}

}  // namespace

StatusOr<int> run_generate(const GenerateOptions& options) {
  RLGEN_RETURN_IF_ERROR(check_output(options));
  RLGEN_ASSIGN_OR_RETURN(SamplingParams sampling, choose_sampling(options));
  Interrupts interrupts;
  RLGEN_ASSIGN_OR_RETURN(Session session, open_session(options.engine));
  if (!options.prompt) return FileRun(options, sampling, session, interrupts).run();
  if (options.seed) sampling.seed = *options.seed;
  return stream_prompt({.prompt = *options.prompt, .chat = options.chat, .sampling = sampling},
                       session, interrupts);
}

}  // namespace rlgen::cli
