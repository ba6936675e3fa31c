#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/edit_distance.h"
#include "base/utf8.h"
#include "cli/diff_options.h"
#include "cli/engine_options.h"
#include "cli/sampling_options.h"
#include "cli/version.h"

namespace rlgen::cli {
namespace {

constexpr char kAbout[] = "rlgen - rollouts for reinforcement learning of language models";

Status usage_error(const std::string& message) { return absl::InvalidArgumentError(message); }

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
  std::string seed;
  std::deque<RawSampling> sampling;
};

StatusOr<nlohmann::json> read_number(std::string_view option, const std::string& text) {
  const char* const end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole);
      read.ec == std::errc() && read.ptr == end) {
    return nlohmann::json(whole);
  }
  double value = 0.0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end && std::isfinite(value)) {
    return nlohmann::json(value);
  }
  return usage_error(fmt::format("{} is \"{}\"; it must be a finite number", option, text));
}

StatusOr<nlohmann::json> read_value(const RawSampling& raw) {
  const SamplingOption& option = *raw.option;
  switch (option.kind) {
    case SamplingKind::kFlag:
      return nlohmann::json(true);
    case SamplingKind::kText:
      return nlohmann::json(raw.values.front());
    case SamplingKind::kTextList:
      for (const std::string& text : raw.values) {
        if (const auto bad = first_invalid_utf8(text)) {
          return usage_error(fmt::format("{} is not UTF-8 at byte {}", option.name, *bad));
        }
      }
      return nlohmann::json(raw.values);
    case SamplingKind::kNumber:
      return read_number(option.name, raw.values.front());
    case SamplingKind::kIdList:
      break;
  }
  auto ids = nlohmann::json::array();
  for (const std::string& text : raw.values) {
    RLGEN_ASSIGN_OR_RETURN(auto id, read_number(option.name, text));
    ids.push_back(std::move(id));
  }
  return ids;
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

CLI::Range at_least(int32_t low) {
  return CLI::Range(low, std::numeric_limits<int32_t>::max(),
                    fmt::format("INT of {} or more", low));
}

}  // namespace

CLI::Option* add_model_options(CLI::App* app, EngineOptions* options) {
  ShardSpec& spec = options->spec;
  CLI::Option* const model = app->add_option(
      "--model", spec.model, "Hugging Face folder, or a repository id that is in the local cache");
  app->add_option("--dtype", spec.dtype, "type of the weights; auto: the checkpoint's")
      ->capture_default_str();
  app->add_option("--activation-dtype", spec.activation_dtype,
                  "arithmetic of linear layers: float32, or bfloat16, which rounds their operands")
      ->capture_default_str();
  app->add_option("--kv-cache-dtype", spec.kv_cache_dtype,
                  "type of cached keys and values; auto: the activations'")
      ->capture_default_str();
  app->add_option("--block-size", spec.block_size, "keys of one cache block, a multiple of 16")
      ->check(at_least(1))
      ->capture_default_str();
  app->add_option("--max-model-len", spec.max_model_len,
                  "context length (0: the model's max_position_embeddings)")
      ->check(at_least(0));
  return model;
}

void add_engine_options(CLI::App* app, EngineOptions* options) {
  add_model_options(app, options)->required();
  ShardSpec& spec = options->spec;
  const int most_threads = machine_cpus();
  app->add_option("--threads", spec.num_threads, "threads (every usable CPU)")
      ->check(CLI::Range(1, most_threads, fmt::format("INT from 1 to {}", most_threads)));
  app->add_option("--isa", spec.isa, "kernels: auto, scalar, avx2, avx512, avx512_bf16, neon")
      ->capture_default_str();
  app->add_option("--kv-cache-memory-bytes", spec.kv_cache_memory_bytes,
                  "memory for keys and values (0: by need and free memory)")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max(), "INT of 0 or more"));
  app->add_option("--max-num-seqs", spec.max_num_seqs, "sequences running at once")
      ->check(at_least(1))
      ->capture_default_str();
  app->add_option("--max-num-batched-tokens", spec.max_num_batched_tokens, "rows of one step")
      ->check(at_least(1))
      ->capture_default_str();
  app->add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", spec.enable_prefix_caching,
                "equal beginnings share keys and values (on unless refused)");
}

namespace {

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
  app->add_option("--prompts", options->prompts, "JSONL file of prompts");
  app->add_option("--prompt", raw->prompt, "one prompt, streamed to the terminal");
  app->add_flag("--chat", options->chat, "--prompt is a user's message: use the chat template");
  app->add_option("--output", options->output, "JSONL file for the rollouts");
  app->add_flag("--resume", options->resume, "go on with an output file that exists");
  app->add_flag("--overwrite", options->overwrite, "replace an output file that exists");
  app->add_flag("--table", options->table, "print a table of the rollouts at the end");
  app->add_option("--generation-config", raw->generation_config,
                  "sampling defaults: none (neutral) or model (its generation_config.json)")
      ->capture_default_str();
  app->add_option("--seed", raw->seed,
                  "seed of the run, from which every prompt's follows (drawn and stored)");
  add_sampling_options(app, raw);
}

void add_score(CLI::App* app, ScoreOptions* options, RawOptions* raw) {
  add_engine_options(app, &options->engine);
  add_log_option(app, raw);
  app->add_option("--input", options->input, "JSONL file with prompt_token_ids and token_ids")
      ->required();
  app->add_option("--output", options->output, "JSONL file for the scored lines")->required();
  app->add_flag("--overwrite", options->overwrite, "replace an output file that exists");
  app->add_option("--logprobs-mode", raw->logprobs_mode,
                  "raw, tempered or processed (each line's own)");
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
  app->add_option("--rows", options->rows,
                  "rows to measure, separated by commas, * and ? as in file names (all)")
      ->delimiter(',');
  app->add_option("--repeats", options->repeats, "runs of each row; the best one counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "no row is repeated after that time")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app->add_option("--prefill-tokens", options->prefill_tokens, "length of each prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--decode-tokens", options->decode_tokens,
                  "new tokens of each sequence in a decode row (0: 64, fewer in large batches)")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app->add_option("--arrival-rate", options->arrival_rate, "requests a second in the mixed row")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  app->add_option("--json", options->json, "file for the figures as JSON");
  app->add_option("--compare", options->compare, "figures of an earlier --json to compare with");
  app->add_option("--plot", options->plot, "file for a plot of the fractions, as SVG");
}

void add_selftest(CLI::App* app, SelftestOptions* options) {
  CLI::Option* const model = add_model_options(app, &options->engine);
  for (CLI::Option* option : app->get_options()) {
    if (option != model && option != app->get_help_ptr()) option->needs(model);
  }
}

StatusOr<int64_t> read_seed(const std::string& text) {
  int64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seed);
  if (read.ec == std::errc() && read.ptr == end && seed >= 0) return seed;
  return usage_error(
      fmt::format("--seed is \"{}\"; it must be a whole number from 0 to 2^63 - 1", text));
}

Status check_generate(const CLI::App& app, const RawOptions& raw, GenerateOptions* options) {
  const bool one = app.count("--prompt") > 0;
  if (one == (app.count("--prompts") > 0)) {
    return usage_error("exactly one of --prompts FILE and --prompt TEXT must be given");
  }
  if (one && raw.prompt.empty()) return usage_error("--prompt is empty; there must be some text");
  if (one) options->prompt = raw.prompt;
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
  if (app.count("--seed") > 0) {
    RLGEN_ASSIGN_OR_RETURN(options->seed, read_seed(raw.seed));
  }
  RLGEN_ASSIGN_OR_RETURN(options->sampling, read_sampling(raw));
  return apply_sampling(command_line_defaults(), options->sampling).status();
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
      return finish(generate, generate_raw);
    }
    if (app.got_subcommand("score")) {
      if (!score_raw.logprobs_mode.empty()) {
        const auto mode = parse_logprobs_mode(score_raw.logprobs_mode);
        if (!mode.ok()) return usage_error("--logprobs-mode: " + message_of(mode.status()));
        score.logprobs_mode = *mode;
      }
      return finish(score, score_raw);
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
  static StatusOr<Command> finish(Options options, const RawOptions& raw) {
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
