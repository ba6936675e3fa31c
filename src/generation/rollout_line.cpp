#include "generation/rollout_line.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "contract/host_tensor.h"
#include "contract/routes/routed_experts.h"
#include "contract/sampling_json.h"
#include "generation/error_code.h"
#include "generation/float_text.h"
#include "generation/json_line.h"

namespace rlgen::generation {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kGivenRoutesKey = "given_routed_experts";

// Keys of one line, each with a value that is JSON text already.
class LineText {
 public:
  void add_raw(std::string_view key, std::string json) {
    fields_.emplace_back(key, std::move(json));
  }
  void add(std::string_view key, const ordered_json& value) { add_raw(key, to_json_text(value)); }
  void add_text(std::string_view key, std::string_view text) { add_raw(key, json_quoted(text)); }
  void add_number(std::string_view key, int64_t value) { add_raw(key, std::to_string(value)); }
  void add_flag(std::string_view key, bool value) { add_raw(key, value ? "true" : "false"); }

  // The value of `key` and its removal; nothing when it is not there.
  std::optional<std::string> take(std::string_view key) {
    for (auto field = fields_.begin(); field != fields_.end(); ++field) {
      if (field->first != key) continue;
      std::string json = std::move(field->second);
      fields_.erase(field);
      return json;
    }
    return std::nullopt;
  }

  void append(LineText other) {
    for (auto& field : other.fields_) fields_.push_back(std::move(field));
  }

  std::string finish() const {
    std::string text = "{";
    for (const auto& [key, json] : fields_) {
      if (text.size() > 1) text += ',';
      text += json_quoted(key);
      text += ':';
      text += json;
    }
    return text + "}";
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// "[a,b,...]" of what `append` writes for each item.
template <typename Items, typename Append>
std::string list_text(const Items& items, Append append) {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1) text += ',';
    append(item, &text);
  }
  return text + "]";
}

std::string ids_text(const std::vector<int32_t>& ids) {
  return list_text(ids, [](int32_t id, std::string* out) { *out += std::to_string(id); });
}

std::string token_ids_text(const std::vector<TokenRecord>& tokens) {
  return list_text(tokens, [](const TokenRecord& record, std::string* out) {
    *out += std::to_string(record.token);
  });
}

std::string logprobs_text(const std::vector<TokenRecord>& tokens) {
  return list_text(tokens, [](const TokenRecord& record, std::string* out) {
    append_float(record.logprob, out);
  });
}

// [[[id, logprob], ...], ...], one list a position.
std::string top_text(const std::vector<TokenRecord>& tokens) {
  return list_text(tokens, [](const TokenRecord& record, std::string* out) {
    *out += list_text(record.top, [](const TokenLogprob& entry, std::string* pair) {
      *pair += fmt::format("[{},", entry.token);
      append_float(entry.logprob, pair);
      *pair += ']';
    });
  });
}

// A list over the prompt: null for position 0, which nothing predicts.
std::string with_leading_null(const std::string& list) {
  return list.size() > 2 ? "[null," + list.substr(1) : "[null]";
}

Status check_finite(const std::vector<TokenRecord>& tokens, std::string_view what, size_t first) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    bool finite = std::isfinite(tokens[i].logprob);
    for (const TokenLogprob& entry : tokens[i].top) finite = finite && std::isfinite(entry.logprob);
    if (!finite) {
      return absl::InternalError(
          fmt::format("the log-probability of {} {} is not finite", what, first + i));
    }
  }
  return absl::OkStatus();
}

Status check_finite(const Rollout& rollout) {
  RLGEN_RETURN_IF_ERROR(check_finite(rollout.tokens, "token", 0));
  return check_finite(rollout.prompt, "prompt position", 1);
}

ordered_json stop_reason_json(const StopReason& reason) {
  if (const auto* id = std::get_if<int32_t>(&reason)) return *id;
  if (const auto* text = std::get_if<std::string>(&reason)) return *text;
  return nullptr;
}

ordered_json spans_json(const Rollout& rollout) {
  auto spans = ordered_json::array();
  for (const VersionSpan& span : rollout.version_spans()) {
    spans.push_back({{"begin", span.begin},
                     {"end", span.end},
                     {"version", span.version},
                     {"oldest_kv", span.oldest_kv}});
  }
  return spans;
}

ordered_json error_json(const Status& error) {
  return {{"code", error_code(error)}, {"message", message_of(error)}};
}

// "[[[3,1],[0,2]],...]": by token and layer.
StatusOr<std::string> routes_as_list(const RouteSpan& routes) {
  RLGEN_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, read_integers(routes.view()));
  const auto top_k = static_cast<size_t>(routes.top_k);
  const size_t row = top_k * static_cast<size_t>(routes.layers);
  std::string text = "[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % row == 0) text += i == 0 ? "[" : "],[";
    if (i % top_k == 0) text += i % row == 0 ? "[" : "],[";
    if (i % top_k != 0) text += ',';
    text += std::to_string(ids[i]);
    if (i % row == row - 1) text += ']';
  }
  return text + (ids.empty() ? "]" : "]]");
}

Status add_routes(const RouteSpan& routes, RouteFormat format, LineText* line) {
  if (!routes.present()) return absl::OkStatus();
  if (format == RouteFormat::kList) {
    RLGEN_ASSIGN_OR_RETURN(std::string list, routes_as_list(routes));
    line->add_raw("routed_experts", std::move(list));
    return absl::OkStatus();
  }
  RLGEN_ASSIGN_OR_RETURN(const std::string envelope, encode_routed_experts(routes.view()));
  line->add_raw("routed_experts", '"' + envelope + '"');
  return absl::OkStatus();
}

void add_side_values(const Rollout& rollout, LineText* line) {
  if (rollout.sampling.logprobs > 0) line->add_raw("top_logprobs", top_text(rollout.tokens));
  if (!rollout.sampling.prompt_logprobs) return;
  line->add_raw("prompt_logprobs", with_leading_null(logprobs_text(rollout.prompt)));
  if (*rollout.sampling.prompt_logprobs > 0) {
    line->add_raw("prompt_top_logprobs", with_leading_null(top_text(rollout.prompt)));
  }
}

}  // namespace

StatusOr<std::string> write_rollout_line(const Rollout& rollout, const RunFacts& run) {
  RLGEN_RETURN_IF_ERROR(check_finite(rollout));
  const bool failed = rollout.finish.reason == FinishReason::kError;
  LineText line;
  line.add_number("schema", kRolloutSchema);
  line.add_text("id", rollout.id);
  line.add_number("sample", rollout.sample);
  line.add_raw("prompt_token_ids", ids_text(rollout.prompt_token_ids));
  line.add_raw("token_ids", token_ids_text(rollout.tokens));
  line.add_raw("logprobs", logprobs_text(rollout.tokens));
  line.add_text("logprobs_mode", logprobs_mode_name(rollout.sampling.logprobs_mode));
  if (!failed) {
    add_side_values(rollout, &line);
    RLGEN_RETURN_IF_ERROR(add_routes(rollout.routes, run.routes, &line));
  }
  if (rollout.given_routes) {
    line.add_text(kGivenRoutesKey, given_routes_digest(*rollout.given_routes));
  }
  line.add("text", run.has_text ? ordered_json(rollout.text) : ordered_json());
  line.add_text("finish_reason", finish_reason_name(rollout.finish.reason));
  line.add("stop_reason", stop_reason_json(rollout.finish.stop_reason));
  line.add_flag("truncated", rollout.truncated());
  line.add_flag("context_full", rollout.finish.context_full);
  line.add("seed", rollout.sampling.seed ? ordered_json(*rollout.sampling.seed) : ordered_json());
  line.add_number("run_seed", run.seed);
  line.add("weight_version",
           rollout.tokens.empty() ? ordered_json() : ordered_json(rollout.tokens[0].version));
  line.add("weight_versions", spans_json(rollout));
  line.add("sampling", sampling_to_json(rollout.sampling));
  line.add_text("numerics", rollout.numerics);
  if (failed) line.add("error", error_json(rollout.finish.error));
  return line.finish();
}

std::string write_failed_prompt(const FailedPrompt& failed, const RunFacts& run) {
  LineText line;
  line.add_number("schema", kRolloutSchema);
  line.add_text("id", failed.id);
  line.add_raw("sample", "null");
  line.add_number("input_line", failed.input_line);
  line.add_text("finish_reason", finish_reason_name(FinishReason::kError));
  line.add_number("run_seed", run.seed);
  line.add("error", error_json(failed.error));
  return line.finish();
}

StatusOr<std::string> write_scored_line(const ordered_json& object, const Rollout& scored,
                                        RouteFormat routes) {
  RLGEN_RETURN_IF_ERROR(check_finite(scored));
  LineText fresh;
  fresh.add_raw("logprobs", logprobs_text(scored.tokens));
  fresh.add_text("logprobs_mode", logprobs_mode_name(scored.sampling.logprobs_mode));
  add_side_values(scored, &fresh);
  RLGEN_RETURN_IF_ERROR(add_routes(scored.routes, routes, &fresh));
  fresh.add("sampling", sampling_to_json(scored.sampling));
  fresh.add_text("numerics", scored.numerics);

  LineText line;
  for (const auto& [key, value] : object.items()) {
    if (key == kGivenRoutesKey && !scored.given_routes) continue;
    if (auto replacement = fresh.take(key)) {
      line.add_raw(key, std::move(*replacement));
    } else {
      line.add(key, value);
    }
  }
  line.append(std::move(fresh));
  return line.finish();
}

}  // namespace rlgen::generation
