#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "contract/rollout.h"
#include "contract/routes/given_routes.h"

namespace rlgen::generation {

// Version of the line format, key "schema". docs/rollouts.md describes it.
inline constexpr int32_t kRolloutSchema = 1;

// How a line writes routes: as one text (contract/routes/routed_experts.h), or as lists of lists of
// lists, which take several times the room and the time.
enum class RouteFormat { kBase64, kList };

// What every line of a run says of it.
struct RunFacts {
  int64_t seed = 0;      // that the lines' seeds follow from
  bool has_text = true;  // false: the model has no tokenizer, and "text" is null
  RouteFormat routes = RouteFormat::kBase64;
};

// A rollout as one line of JSON without the line end. kInternal names the position of a
// log-probability that is not finite: no such line exists.
StatusOr<std::string> write_rollout_line(const Rollout& rollout, const RunFacts& run);

// A prompt that could not be rolled out at all: "sample" is null, "input_line" the line's number
// in the prompts file, from 0.
struct FailedPrompt {
  std::string id;
  int64_t input_line = 0;
  Status error;
};
std::string write_failed_prompt(const FailedPrompt& failed, const RunFacts& run);

// How a line has its routes.
struct StoredRoutes {
  RouteFormat format = RouteFormat::kBase64;
  std::optional<int64_t> layers;  // of the layer axis; unset where an empty list does not say

  bool operator==(const StoredRoutes&) const = default;
};

// What --resume needs of a line that is already there.
struct StoredLine {
  std::string id;
  std::optional<int32_t> sample;      // unset: the prompt as a whole failed
  std::optional<int64_t> input_line;  // set exactly then
  int64_t run_seed = 0;
  bool failed = false;  // finish_reason is "error"
  std::vector<int32_t> prompt_token_ids;
  SamplingParams sampling;
  std::string numerics;
  int64_t tokens = 0;
  std::optional<StoredRoutes> routes;
  std::string given_routes;  // given_routes_digest; empty: none were given
};

// kDataLoss where the line is none of ours: what is missing or wrong is named.
StatusOr<StoredLine> read_stored_line(std::string_view line);

// What `score` needs: the ids and how they were sampled.
struct ScoreLine {
  std::string id;  // "" where the line has none
  int32_t sample = 0;
  std::vector<int32_t> prompt_token_ids;
  std::vector<int32_t> token_ids;
  SamplingParams sampling;  // of key "sampling", with "logprobs_mode" of the line over it
  GivenRoutes routed_experts;
};

// `object` is a parsed line; its routes are read where `with_routes` says so, and have to be there
// then. kInvalidArgument names a missing or wrong key, a "schema" that this program does not know
// among them.
StatusOr<ScoreLine> read_score_line(const nlohmann::ordered_json& object, bool with_routes = false);

// `object` with the values of `scored` in place of its own: logprobs, logprobs_mode (also inside
// sampling), numerics, the top and prompt log-probabilities where the sampling asks for them, and
// routes where they were recorded; without given_routed_experts where none were given.
StatusOr<std::string> write_scored_line(const nlohmann::ordered_json& object, const Rollout& scored,
                                        RouteFormat routes = RouteFormat::kBase64);

}  // namespace rlgen::generation
