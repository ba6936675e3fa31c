#include "cli/diff_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "cli/engine_options.h"
#include "cli/option_words.h"
#include "cli/value_options.h"

namespace rlgen::cli {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Reads key=value pairs, the keys being the names of engine options, over what `side` has.
Status apply_settings(std::string_view option, const std::vector<std::string>& given,
                      EngineOptions* side) {
  CLI::App app;
  app.set_help_flag();
  add_engine_options(&app, side);
  app.get_option("--model")->required(false);
  std::vector<std::string> arguments;
  for (const std::string& part : given) {
    for (const std::string& pair : split(part)) {
      const size_t equals = pair.find('=');
      if (equals == std::string::npos || equals == 0 || pair[0] == '-') {
        return usage_error(fmt::format(
            "{} has \"{}\"; it takes key=value pairs, the key an engine option without its dashes",
            option, pair));
      }
      arguments.push_back("--" + pair);
    }
  }
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Error& error) {
    return usage_error(fmt::format("{}: {}", option, error.what()));
  }
  return absl::OkStatus();
}

Status read_ids(const std::string& text, std::vector<int64_t>* ids) {
  for (const std::string& part : split(text)) {
    const auto id = whole_number(part);
    if (!id) {
      return usage_error(
          fmt::format("--prompt-token-ids has {}; it takes token ids with commas between them",
                      shown_value(part)));
    }
    ids->push_back(*id);
  }
  return absl::OkStatus();
}

Status check_rollouts(const CLI::App& app, const DiffOptions& options) {
  constexpr std::array<std::string_view, 3> kAllowed = {"files", "--tolerance", "--json"};
  if (options.rollouts.size() != 2) {
    return usage_error("there is one rollout file; two are compared with each other");
  }
  for (const std::string& path : options.rollouts) {
    if (path.empty()) return usage_error("a rollout file is named \"\"; it must be a file");
  }
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::find(kAllowed, name) != kAllowed.end()) continue;
    return usage_error(
        fmt::format("{} does not belong to rollout files, which need no model", name));
  }
  return absl::OkStatus();
}

Status check_runs(const CLI::App& app, const DiffOptions& options) {
  constexpr std::array kSources = {"--prompt-token-ids", "--prompt", "--input", "--reference"};
  if (app.count("--model") == 0) {
    return usage_error("--model is required, or two rollout files in place of all of it");
  }
  const auto sources =
      std::ranges::count_if(kSources, [&](const char* name) { return app.count(name) > 0; });
  if (sources != 1) {
    return usage_error(fmt::format("exactly one of {} must be given", fmt::join(kSources, ", ")));
  }
  if (!options.reference.empty() && app.count("--right") > 0) {
    return usage_error("--right and --reference exclude each other");
  }
  if (options.overwrite && options.dump.empty())
    return usage_error("--overwrite belongs to --dump");
  if (!options.only_dump()) return absl::OkStatus();
  if (options.dump.empty()) {
    return usage_error("nothing to compare; --left, --right and --reference say what with what");
  }
  if (app.count("--tolerance") > 0 || options.json) {
    return usage_error("--tolerance and --json belong to a comparison; there is only --dump");
  }
  return absl::OkStatus();
}

}  // namespace

void add_diff(CLI::App* app, DiffOptions* options, RawDiff* raw) {
  EngineOptions& engine = options->left;
  engine.spec.enable_prefix_caching = false;
  add_engine_options(app, &engine);
  app->get_option("--model")->required(false);
  app->get_option("--enable-prefix-caching")
      ->description("look at a run that finds the prefix cache filled (off unless asked for)");
  app->add_option("files", options->rollouts, "two rollout files to compare, without a model")
      ->expected(1, 2);
  app->add_option("--prompt-token-ids", raw->prompt_token_ids, "token ids: 1,2,3");
  app->add_option("--prompt", raw->prompt, "one prompt as text");
  add_name(app, {"--input", "JSONL file with prompt_token_ids and token_ids"}, "a file",
           &options->input);
  for (const auto& [name, values] : {std::pair("--left", &raw->left), {"--right", &raw->right}}) {
    app->add_option(name, *values, "engine options of that side: isa=scalar,threads=1,model=OTHER")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  add_name(
      app,
      {"--reference", "a file of activations in place of the right side; its token ids are run"},
      "a file", &options->reference);
  add_name(app, {"--dump", "file for the activations of the left side"}, "a file", &options->dump);
  app->add_flag("--overwrite", options->overwrite, "replace a --dump file that exists");
  add_number(app, {"--tolerance", "largest absolute difference to let pass"},
             {0.0, std::numeric_limits<double>::max(), "0 or more"}, &options->tolerance);
  app->add_flag("--json", options->json, "print JSON");
}

Status finish_diff(const CLI::App& app, const RawDiff& raw, DiffOptions* options) {
  options->compares = app.count("--left") + app.count("--right") + app.count("--reference") > 0;
  if (!options->rollouts.empty()) return check_rollouts(app, *options);
  RLGEN_RETURN_IF_ERROR(check_runs(app, *options));
  if (app.count("--prompt") > 0) {
    RLGEN_RETURN_IF_ERROR(check_prompt_text(raw.prompt));
    options->prompt = raw.prompt;
  }
  if (app.count("--prompt-token-ids") > 0) {
    RLGEN_RETURN_IF_ERROR(read_ids(raw.prompt_token_ids, &options->prompt_token_ids));
  }
  options->right = options->left;
  options->left_settings = fmt::format("{}", fmt::join(raw.left, ","));
  options->right_settings = fmt::format("{}", fmt::join(raw.right, ","));
  RLGEN_RETURN_IF_ERROR(apply_settings("--left", raw.left, &options->left));
  return apply_settings("--right", raw.right, &options->right);
}

}  // namespace rlgen::cli
