#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "contract/sampling_params.h"
#include "contract/shard.h"
#include "generation/rollout_line.h"

namespace rlgen::cli {

// Options that every command with a running model shares. `spec.model` as the user gave it.
struct EngineOptions {
  ShardSpec spec;
  LogLevel log_level = LogLevel::kInfo;
};

// Where sampling parameters come from that neither the command line nor a prompt line sets.
enum class GenerationConfigUse {
  kNone,   // the neutral defaults
  kModel,  // generation_config.json of the model
};

// A sampling option that was given: its JSON key and its value as JSON text.
struct GivenSampling {
  std::string option;  // "--top-p"
  std::string key;     // "top_p"
  std::string json;
};

struct GenerateOptions {
  EngineOptions engine;
  std::string prompts;                // a file of prompt lines; empty: `prompt`
  std::optional<std::string> prompt;  // one prompt, streamed to the terminal
  bool chat = false;
  std::string output;  // empty: no file
  bool resume = false;
  bool overwrite = false;
  bool table = false;
  GenerationConfigUse generation_config = GenerationConfigUse::kNone;
  std::optional<int64_t> seed;  // of the run
  generation::RouteFormat routes_format = generation::RouteFormat::kBase64;
  std::vector<GivenSampling> sampling;
};

struct ScoreOptions {
  EngineOptions engine;
  std::string input;
  std::string output;
  bool overwrite = false;
  std::optional<LogprobsMode> logprobs_mode;
  bool replay_routes = false;  // the lines' own
  generation::RouteFormat routes_format = generation::RouteFormat::kBase64;
};

struct InspectOptions {
  EngineOptions engine;
  bool tensors = false;
  bool checksums = false;
  bool json = false;
};

struct BenchOptions {
  EngineOptions engine;
  std::vector<std::string> rows;  // shell patterns of row names; empty: all
  int32_t repeats = 3;
  double seconds = 60.0;  // after which no row is repeated
  int32_t prefill_tokens = 128;
  int32_t decode_tokens = 0;  // 0: as the row has it
  double arrival_rate = 4.0;  // requests a second of the mixed row
  std::string json;           // a file for the figures; empty: none
  std::string compare;        // a file of figures to compare with; empty: none
  std::string plot;           // a file for the plot; empty: none
};

struct SelftestOptions {
  EngineOptions engine;  // isa and num_threads run through all there are; model may be empty
};

struct DiffOptions {
  std::vector<std::string> rollouts;  // two files; then of the rest tolerance and json alone count

  // Two runs over the same token ids, which one of prompt_token_ids, prompt, input and reference
  // gives.
  EngineOptions left, right;
  std::string left_settings, right_settings;  // what sets the sides apart, as the user gave it
  std::vector<int64_t> prompt_token_ids;      // whatever whole numbers were given
  std::optional<std::string> prompt;
  std::string input;
  std::string reference;  // a file of activations in place of the right side
  bool compares = false;  // --left, --right or --reference was given

  std::string dump;  // a file for the left side's activations; empty: none
  bool overwrite = false;
  double tolerance = 0.0;
  bool json = false;

  bool only_dump() const { return !compares; }
};

using Command = std::variant<GenerateOptions, ScoreOptions, InspectOptions, BenchOptions,
                             SelftestOptions, DiffOptions>;

}  // namespace rlgen::cli
