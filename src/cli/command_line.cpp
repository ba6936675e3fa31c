#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "base/edit_distance.h"
#include "base/utf8.h"
#include "cli/diff_options.h"
#include "cli/engine_options.h"
#include "cli/option_words.h"
#include "cli/sampling_options.h"
#include "cli/value_options.h"
#include "cli/version.h"
#include "generation/json_line.h"

namespace rlgen::cli {
namespace {

constexpr std::string_view kFile = "a file";
constexpr char kAbout[] = "rlgen - rollouts for reinforcement learning of language models";

// Strings as CLI11 delivers them, for options whose values are read here.
struct RawSampling {
  const SamplingOption* option = nullptr;
  CLI::Option* handle = nullptr;
  std::vector<std::string> values;
  bool flag = false;
};

struct RawOptions {
  std::string logprobs_mode;
  std::string log_level = "info";
  std::string generation_config = "none";
  std::string prompt;
  std::string routes_format = "base64";
  std::deque<RawSampling> sampling;
};

// A number, or else the text as it is, which no parameter that wants a number takes.
nlohmann::json number_or_text(const std::string& text) {
  if (const auto whole = whole_number(text)) return *whole;
  const char* const end = text.data() + text.size();
  double value = 0.0;
  const auto read = std::from_chars(text.data(), end, value);
  const bool good = read.ec == std::errc() && read.ptr == end && std::isfinite(value);
  return good ? nlohmann::json(value) : nlohmann::json(text);
}

Status check_utf8(const RawSampling& raw) {
  for (const std::string& text : raw.values) {
    if (const auto bad = first_invalid_utf8(text)) {
      return usage_error(fmt::format("{} is not UTF-8 at byte {}", raw.option->name, *bad));
    }
  }
  return absl::OkStatus();
}

// Ids are not held against a vocabulary here: the model says which there are.
StatusOr<nlohmann::json> read_token_ids(const RawSampling& raw) {
  auto ids = nlohmann::json::array();
  for (const std::string& text : raw.values) {
    const auto id = whole_number(text);
    if (!id) {
      return usage_error(
          fmt::format("{} is {}; it must be a token id", raw.option->name, shown_value(text)));
    }
    ids.push_back(*id);
  }
  return ids;
}

StatusOr<nlohmann::json> read_value(const RawSampling& raw) {
  switch (raw.option->kind) {
    case SamplingKind::kFlag:
      return nlohmann::json(true);
    case SamplingKind::kText:
      return nlohmann::json(raw.values.front());
    case SamplingKind::kTextList:
      RLGEN_RETURN_IF_ERROR(check_utf8(raw));
      return nlohmann::json(raw.values);
    case SamplingKind::kNumber:
      return number_or_text(raw.values.front());
    case SamplingKind::kIdList:
      break;
  }
  return read_token_ids(raw);
}

StatusOr<std::vector<GivenSampling>> read_sampling(const RawOptions& raw) {
  std::vector<GivenSampling> given;
  for (const RawSampling& item : raw.sampling) {
    if (item.handle->count() == 0) continue;
    RLGEN_ASSIGN_OR_RETURN(const nlohmann::json value, read_value(item));
    given.push_back({.option = std::string(item.option->name),
                     .key = std::string(item.option->key),
                     .json = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)});
  }
  return given;
}

StatusOr<LogLevel> read_log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return usage_error(
      fmt::format("--log-level is \"{}\"; it must be debug, info, warning or error", name));
}

StatusOr<LogprobsMode> read_logprobs_mode(const std::string& name) {
  const auto mode = parse_logprobs_mode(name);
  if (mode.ok()) return *mode;
  return usage_error(fmt::format("--logprobs-mode is {}; it must be raw, tempered or processed",
                                 generation::json_quoted(name)));
}

void add_route_options(CLI::App* app, ShardSpec* spec) {
  app->add_flag("--enable-return-routed-experts", spec->enable_return_routed_experts,
                "record which experts each token used");
  app->add_option("--routed-experts-layers", spec->routed_experts_layers,
                  "layers of these routes: moe (those with experts) or all")
      ->capture_default_str();
}

void add_routes_format(CLI::App* app, RawOptions* raw) {
  app->add_option("--routed-experts-format", raw->routes_format,
                  "how lines write routes: base64 (one text) or list (nested lists, large)")
      ->capture_default_str();
}

StatusOr<generation::RouteFormat> read_routes_format(const std::string& name) {
  if (name == "base64") return generation::RouteFormat::kBase64;
  if (name == "list") return generation::RouteFormat::kList;
  return usage_error(fmt::format("--routed-experts-format is {}; it must be base64 or list",
                                 generation::json_quoted(name)));
}

void add_log_option(CLI::App* app, RawOptions* raw) {
  app->add_option("--log-level", raw->log_level, "debug, info, warning or error")
      ->capture_default_str();
}

void add_sampling_options(CLI::App* app, RawOptions* raw) {
  for (const SamplingOption& option : sampling_options()) {
    RawSampling& item = raw->sampling.emplace_back();
    item.option = &option;
    const std::string name(option.name);
    const std::string help(option.help);
    if (option.kind == SamplingKind::kFlag) {
      item.handle = app->add_flag(name, item.flag, help);
      continue;
    }
    item.handle = app->add_option(name, item.values, help);
    const bool list =
        option.kind == SamplingKind::kTextList || option.kind == SamplingKind::kIdList;
    if (!list) item.handle->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  }
}

void add_generate(CLI::App* app, GenerateOptions* options, RawOptions* raw) {
  add_engine_options(app, &options->engine);
  add_log_option(app, raw);
  add_name(app, {"--prompts", "JSONL file of prompts"}, kFile, &options->prompts);
  app->add_option("--prompt", raw->prompt, "one prompt, streamed to the terminal");
  app->add_flag("--chat", options->chat, "--prompt is a user's message: use the chat template");
  add_name(app, {"--output", "JSONL file for the rollouts"}, kFile, &options->output);
  app->add_flag("--resume", options->resume, "go on with an output file that exists");
  app->add_flag("--overwrite", options->overwrite, "replace an output file that exists");
  app->add_flag("--table", options->table, "print a table of the rollouts at the end");
  app->add_option("--generation-config", raw->generation_config,
                  "sampling defaults: none (neutral) or model (its generation_config.json)")
      ->capture_default_str();
  add_whole_number(
      app, {"--seed", "seed of the run, from which every prompt's follows (drawn and stored)"},
      kSeedRange, [options](int64_t seed) { options->seed = seed; });
  add_route_options(app, &options->engine.spec);
  add_routes_format(app, raw);
  add_sampling_options(app, raw);
}

void add_score(CLI::App* app, ScoreOptions* options, RawOptions* raw) {
  add_engine_options(app, &options->engine);
  add_log_option(app, raw);
  add_name(app, {"--input", "JSONL file with prompt_token_ids and token_ids"}, kFile,
           &options->input)
      ->required();
  add_name(app, {"--output", "JSONL file for the scored lines"}, kFile, &options->output)
      ->required();
  app->add_flag("--overwrite", options->overwrite, "replace an output file that exists");
  app->add_option("--logprobs-mode", raw->logprobs_mode,
                  "raw, tempered or processed (each line's own)");
  app->add_flag("--replay-routed-experts", options->replay_routes,
                "use the experts that each line names in routed_experts");
  add_route_options(app, &options->engine.spec);
  add_routes_format(app, raw);
}

void add_inspect(CLI::App* app, InspectOptions* options) {
  add_model_options(app, &options->engine)->required();
  app->add_flag("--tensors", options->tensors, "list every tensor of the checkpoint");
  app->add_flag("--checksums", options->checksums, "with --tensors: hash each tensor's bytes");
  app->add_flag("--json", options->json, "print JSON");
}

void add_bench(CLI::App* app, BenchOptions* options) {
  options->engine.spec.max_num_seqs = 128;  // the largest batch of the rows
  add_engine_options(app, &options->engine);
  add_route_options(app, &options->engine.spec);
  app->add_option("--rows", options->rows,
                  "rows to measure, separated by commas, * and ? as in file names (all)")
      ->delimiter(',');
  add_whole_number(app, {"--repeats", "runs of each row; the best one counts"}, {1, 1000},
                   &options->repeats);
  add_number(app, {"--seconds", "no row is repeated after that time"}, {0.0, 1e6},
             &options->seconds);
  add_whole_number(app, {"--prefill-tokens", "length of each prompt"}, {1, 1 << 20},
                   &options->prefill_tokens);
  add_whole_number(app,
                   {"--decode-tokens",
                    "new tokens of each sequence in a decode row (0: 64, fewer in large batches)"},
                   {0, 1 << 20}, &options->decode_tokens);
  add_number(app, {"--arrival-rate", "requests a second in the mixed row"}, {1e-3, 1e6},
             &options->arrival_rate);
  add_name(app, {"--json", "file for the figures as JSON"}, kFile, &options->json);
  add_name(app, {"--compare", "figures of an earlier --json to compare with"}, kFile,
           &options->compare);
  add_name(app, {"--plot", "file for a plot of the fractions, as SVG"}, kFile, &options->plot);
}

void add_selftest(CLI::App* app, SelftestOptions* options) {
  CLI::Option* const model = add_model_options(app, &options->engine);
  for (CLI::Option* option : app->get_options()) {
    if (option != model && option != app->get_help_ptr()) option->needs(model);
  }
}

// What can be said before the model is looked at: it may have defaults of its own, and it has the
// token ids.
Status check_given_sampling(const GenerateOptions& options) {
  if (options.generation_config == GenerationConfigUse::kModel) return absl::OkStatus();
  std::vector<GivenSampling> known = options.sampling;
  std::erase_if(known, holds_token_ids);
  return apply_sampling(command_line_defaults(), known).status();
}

Status check_generate(const CLI::App& app, const RawOptions& raw, GenerateOptions* options) {
  const bool one = app.count("--prompt") > 0;
  if (one == (app.count("--prompts") > 0)) {
    return usage_error("exactly one of --prompts FILE and --prompt TEXT must be given");
  }
  if (one) {
    RLGEN_RETURN_IF_ERROR(check_prompt_text(raw.prompt));
    options->prompt = raw.prompt;
  }
  if (options->chat && !one) return usage_error("--chat belongs to --prompt");
  if (one && (app.count("--output") > 0 || options->table)) {
    return usage_error(
        "--prompt streams to the terminal; --output and --table belong to --prompts");
  }
  if (!one && options->output.empty() && !options->table) {
    return usage_error("--prompts needs --output FILE (or --table)");
  }
  if (options->resume && options->overwrite) {
    return usage_error("--resume and --overwrite exclude each other");
  }
  if ((options->resume || options->overwrite) && options->output.empty()) {
    return usage_error("--resume and --overwrite belong to --output");
  }
  if (raw.generation_config == "model") {
    options->generation_config = GenerationConfigUse::kModel;
  } else if (raw.generation_config != "none") {
    return usage_error(fmt::format("--generation-config is \"{}\"; it must be none or model",
                                   raw.generation_config));
  }
  if (options->engine.spec.enable_return_routed_experts && options->output.empty()) {
    return usage_error("--enable-return-routed-experts belongs to --output: routes go into a file");
  }
  RLGEN_ASSIGN_OR_RETURN(options->sampling, read_sampling(raw));
  return check_given_sampling(*options);
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// The program's options with one set of raw values for each command.
struct Program {
  CLI::App app{kAbout, "rlgen"};
  RawOptions generate_raw;
  RawOptions score_raw;
  GenerateOptions generate;
  ScoreOptions score;
  InspectOptions inspect;
  BenchOptions bench;
  SelftestOptions selftest;
  RawDiff diff_raw;
  DiffOptions diff;

  Program() {
    app.set_version_flag("--version", kVersion);
    app.require_subcommand(1);
    add_generate(app.add_subcommand("generate", "roll out prompts"), &generate, &generate_raw);
    add_score(app.add_subcommand("score", "log-probabilities of given tokens"), &score, &score_raw);
    add_inspect(app.add_subcommand("inspect", "what a checkpoint is"), &inspect);
    add_bench(app.add_subcommand("bench", "speed, and the machine's limits beside it"), &bench);
    add_selftest(
        app.add_subcommand("selftest", "check that this build and machine keep their bits"),
        &selftest);
    add_diff(app.add_subcommand("diff", "where two runs, or two rollout files, part"), &diff,
             &diff_raw);
  }

  StatusOr<Command> command() {
    if (app.got_subcommand("generate")) {
      RLGEN_RETURN_IF_ERROR(
          check_generate(*app.get_subcommand("generate"), generate_raw, &generate));
      return finish(generate, generate_raw, *app.get_subcommand("generate"));
    }
    if (app.got_subcommand("score")) {
      if (app.get_subcommand("score")->count("--logprobs-mode") > 0) {
        RLGEN_ASSIGN_OR_RETURN(score.logprobs_mode, read_logprobs_mode(score_raw.logprobs_mode));
      }
      return finish(score, score_raw, *app.get_subcommand("score"));
    }
    if (app.got_subcommand("inspect")) {
      if (inspect.checksums && !inspect.tensors) {
        return usage_error("--checksums belongs to --tensors");
      }
      return Command(inspect);
    }
    if (app.got_subcommand("bench")) return Command(bench);
    if (app.got_subcommand("diff")) {
      RLGEN_RETURN_IF_ERROR(finish_diff(*app.get_subcommand("diff"), diff_raw, &diff));
      return Command(diff);
    }
    return Command(selftest);
  }

  template <typename Options>
  static StatusOr<Command> finish(Options options, const RawOptions& raw, const CLI::App& app) {
    RLGEN_ASSIGN_OR_RETURN(options.routes_format, read_routes_format(raw.routes_format));
    if (app.count("--routed-experts-format") > 0 &&
        !options.engine.spec.enable_return_routed_experts) {
      return usage_error("--routed-experts-format belongs to --enable-return-routed-experts");
    }
    RLGEN_ASSIGN_OR_RETURN(options.engine.log_level, read_log_level(raw.log_level));
    return Command(std::move(options));
  }
};

// CLI11 would only say that a command is missing.
Status check_command(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 6> kCommands = {"generate", "score",    "inspect",
                                                         "bench",    "selftest", "diff"};
  if (arguments.empty() || arguments[0].starts_with('-')) return absl::OkStatus();
  const std::string& name = arguments[0];
  if (std::find(kCommands.begin(), kCommands.end(), name) != kCommands.end()) {
    return absl::OkStatus();
  }
  return usage_error(fmt::format("\"{}\" is no command{}; there are {}", name,
                                 suggest(name, kCommands), fmt::join(kCommands, ", ")));
}

}  // namespace

StatusOr<Parsed> parse_command_line(const std::vector<std::string>& arguments) {
  Program program;
  RLGEN_RETURN_IF_ERROR(check_command(arguments));
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    program.app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion& version) {
    return Parsed(PrintAndLeave{std::string(kVersion) + "\n"});
  } catch (const CLI::Success&) {
    return Parsed(PrintAndLeave{program.app.help()});
  } catch (const CLI::Error& error) {
    return usage_error(one_line(error.what()));
  }
  RLGEN_ASSIGN_OR_RETURN(Command command, program.command());
  return Parsed(std::move(command));
}

}  // namespace rlgen::cli
