#include <fmt/format.h>

#include "base/file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generate_file.h"
#include "cli/generate_stream.h"
#include "cli/sampling_options.h"
#include "contract/spec_error.h"
#include "generation/generation_config.h"

namespace rlgen::cli {
namespace {

// The command line's defaults, the model's over them where asked for, the options over both.
StatusOr<SamplingParams> choose_sampling(const GenerateOptions& options,
                                         const std::string& folder) {
  SamplingParams defaults = command_line_defaults();
  if (options.generation_config == GenerationConfigUse::kModel) {
    RLGEN_ASSIGN_OR_RETURN(const std::string json, read_file(folder + "/generation_config.json"));
    RLGEN_ASSIGN_OR_RETURN(defaults, generation::apply_generation_config(json, defaults));
  }
  return apply_sampling(defaults, options.sampling);
}

// Said before the model is loaded; opening the files says it again missing_part a race.
Status check_run_files(const GenerateOptions& options) {
  if (!options.prompts.empty()) RLGEN_RETURN_IF_ERROR(check_readable(options.prompts));
  if (options.output.empty()) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(generation::check_not_input("--prompts", options.prompts, options.output));
  RLGEN_RETURN_IF_ERROR(check_writable(options.output));
  if (options.resume || options.overwrite) return absl::OkStatus();
  const Status status = generation::check_new(options.output);
  if (status.ok()) return status;
  return absl::AlreadyExistsError(message_of(status) + ", --resume goes on with it");
}

Status missing_part(std::string_view option, std::string_view what) {
  return spec_error(option, absl::FailedPreconditionError(fmt::format(
                                "{} needs {}, which this model does not have", option, what)));
}

// What options in words need of the model's text side.
Status check_text_options(const GenerateOptions& options, const SamplingParams& sampling,
                          const generation::TextSession* text) {
  constexpr std::string_view kTokenizer = "a tokenizer";
  if (text == nullptr) {
    if (options.prompt) return missing_part("--prompt", kTokenizer);
    if (!sampling.stop.empty()) return missing_part("--stop", kTokenizer);
    if (!sampling.bad_words.empty()) return missing_part("--bad-words", kTokenizer);
    return absl::OkStatus();
  }
  if (options.chat && text->chat_template() == nullptr)
    return missing_part("--chat", "a chat template");
  for (const std::string& word : sampling.bad_words) {
    const Status status = text->bad_word_ids(word).status();
    RLGEN_RETURN_IF_ERROR(spec_error("bad_words", in_sampling_words(status, options.sampling, {})));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<int> run_generate(const GenerateOptions& options) {
  RLGEN_RETURN_IF_ERROR(check_run_files(options));
  Interrupts interrupts;
  SamplingParams sampling;
  const auto check = [&](const Session& model, const ShardInfo& info) -> Status {
    RLGEN_RETURN_IF_ERROR(check_token_ids(options.sampling, info.vocab_size));
    RLGEN_ASSIGN_OR_RETURN(sampling, choose_sampling(options, model.folder));
    return check_text_options(options, sampling, model.text.get());
  };
  RLGEN_ASSIGN_OR_RETURN(Session session, open_session(options.engine, check));
  if (!options.prompt) return FileRun(options, sampling, session, interrupts).run();
  if (options.seed) sampling.seed = *options.seed;
  const auto code = stream_prompt(
      {.prompt = *options.prompt, .chat = options.chat, .sampling = sampling}, session, interrupts);
  if (code.ok()) return code;
  return in_sampling_words(code.status(), options.sampling, {});
}

}  // namespace rlgen::cli
