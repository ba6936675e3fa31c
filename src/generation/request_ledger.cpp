#include "generation/request_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace rlgen::generation {
namespace {

Status broken(const std::string& what) {
  return absl::DataLossError(what + "; the sample is rejected");
}

Status check_value(float logprob, std::string_view what, size_t position) {
  if (std::isfinite(logprob) && logprob <= 0.0f) return absl::OkStatus();
  return broken(
      fmt::format("the log-probability of {} {} is {}, which is none", what, position, logprob));
}

// `first` is the position of the first record.
Status check_records(const std::vector<TokenRecord>& records, std::string_view what, size_t first,
                     int32_t most) {
  for (size_t i = 0; i < records.size(); ++i) {
    RLGEN_RETURN_IF_ERROR(check_value(records[i].logprob, what, first + i));
    if (records[i].top.size() > static_cast<size_t>(most)) {
      return broken(fmt::format("{} {} has {} alternatives, {} were asked for", what, first + i,
                                records[i].top.size(), most));
    }
    for (const TokenLogprob& entry : records[i].top) {
      RLGEN_RETURN_IF_ERROR(check_value(entry.logprob, "an alternative of token", first + i));
    }
  }
  return absl::OkStatus();
}

// `done` tokens came before.
Status check_scored(const OpenSequence& asked, const std::vector<TokenRecord>& tokens,
                    size_t done) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t position = done + i;
    if (position >= asked.score_token_ids.size()) {
      return broken(fmt::format("{} tokens were to be scored, a value for token {} came",
                                asked.score_token_ids.size(), position));
    }
    if (tokens[i].token != asked.score_token_ids[position]) {
      return broken(fmt::format("token {} to be scored is {}, the value is for {}", position,
                                asked.score_token_ids[position], tokens[i].token));
    }
  }
  return absl::OkStatus();
}

// `before` came earlier; `tokens` are those of the sequence with this event.
Status check_routes(const RouteFacts& facts, const RouteSpan& before, const RouteSpan& routes,
                    size_t tokens) {
  if (!routes.present()) return absl::OkStatus();
  if (!facts.recorded()) return broken("routed_experts came, which nobody records");
  if (routes.layers != facts.layers || routes.top_k != facts.top_k ||
      routes.dtype != facts.dtype()) {
    return broken(
        fmt::format("routed_experts came as {} of {} layers and top-{}, not {}, {} and {}",
                    torch_name(routes.dtype), routes.layers, routes.top_k,
                    torch_name(facts.dtype()), facts.layers, facts.top_k));
  }
  if (routes.first != before.end()) {
    return broken(fmt::format("routed_experts of token {} are missing: they go on with token {}",
                              before.end(), routes.first));
  }
  if (static_cast<size_t>(routes.end()) > tokens) {
    return broken(
        fmt::format("routed_experts came for {} tokens, there are {}", routes.end(), tokens));
  }
  const Status experts = check_experts(routes, facts.experts);
  return experts.ok() ? experts : broken(message_of(experts));
}

}  // namespace

Status RequestLedger::open(SequenceId id, OpenSequence sequence) {
  RouteSpan routes =
      empty_route_span(sequence.routes, sequence.sampling.routed_experts_prompt_start);
  if (sequences_.try_emplace(id, Entry{std::move(sequence), {}, {}, std::move(routes)}).second) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(fmt::format("sequence {} is in flight already", id));
}

Status RequestLedger::check(const Entry& entry, const SequenceEvent& event) {
  const OpenSequence& asked = entry.asked;
  const size_t done = entry.tokens.size();
  const size_t total = done + event.tokens.size();
  RLGEN_RETURN_IF_ERROR(check_records(event.tokens, "token", done, asked.sampling.logprobs));
  RLGEN_RETURN_IF_ERROR(check_records(event.prompt, "prompt position", entry.prompt.size() + 1,
                                      asked.sampling.prompt_logprobs.value_or(0)));
  if (asked.score_only) {
    RLGEN_RETURN_IF_ERROR(check_scored(asked, event.tokens, done));
  } else if (asked.sampling.max_tokens && !event.tokens.empty()) {
    const size_t output = total + static_cast<size_t>(asked.sampling.output_prefix_len);
    if (output > static_cast<size_t>(*asked.sampling.max_tokens)) {
      return broken(
          fmt::format("{} tokens came, max_tokens is {}", output, *asked.sampling.max_tokens));
    }
  }
  RLGEN_RETURN_IF_ERROR(check_routes(asked.routes, entry.routes, event.routes,
                                     asked.prompt_token_ids.size() + total));
  if (!event.finish || event.finish->reason == FinishReason::kError ||
      event.finish->reason == FinishReason::kAbort) {
    return absl::OkStatus();
  }
  if (asked.score_only && total != asked.score_token_ids.size()) {
    return broken(fmt::format("the log-probability of token {} is missing", total));
  }
  const size_t prompt_values = entry.prompt.size() + event.prompt.size();
  if (asked.sampling.prompt_logprobs && prompt_values + 1 != asked.prompt_token_ids.size()) {
    return broken(
        fmt::format("the log-probability of prompt position {} is missing", prompt_values + 1));
  }
  return absl::OkStatus();
}

Rollout RequestLedger::close(Entry entry, Finish finish) {
  Rollout rollout;
  rollout.id = std::move(entry.asked.id);
  rollout.sample = entry.asked.sample;
  rollout.prompt_token_ids = std::move(entry.asked.prompt_token_ids);
  rollout.tokens = std::move(entry.tokens);
  rollout.prompt = std::move(entry.prompt);
  rollout.routes = std::move(entry.routes);
  rollout.given_routes = std::move(entry.asked.given_routes);
  rollout.finish = std::move(finish);
  rollout.sampling = std::move(entry.asked.sampling);
  rollout.numerics = std::move(entry.asked.numerics);
  rollout.shard = entry.asked.shard;
  return rollout;
}

std::optional<Rollout> RequestLedger::fail(SequenceId id, const Status& error) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return std::nullopt;
  Entry entry = std::move(found->second);
  sequences_.erase(found);
  entry.tokens.clear();
  entry.prompt.clear();
  entry.routes = {};
  return close(std::move(entry), Finish{.reason = FinishReason::kError, .error = error});
}

StatusOr<RequestLedger::Applied> RequestLedger::apply(SequenceEvent event) {
  const auto found = sequences_.find(event.id);
  if (found == sequences_.end()) {
    return absl::NotFoundError(fmt::format("sequence {} is not in flight", event.id));
  }
  Entry& entry = found->second;
  Applied applied{.sample = entry.asked.sample};
  if (const Status status = check(entry, event); !status.ok()) {
    applied.rollout = fail(event.id, status);
    applied.reject = !event.finish;
    return applied;
  }
  entry.tokens.insert(entry.tokens.end(), event.tokens.begin(), event.tokens.end());
  std::move(event.prompt.begin(), event.prompt.end(), std::back_inserter(entry.prompt));
  RLGEN_RETURN_IF_ERROR(append_routes(event.routes, &entry.routes));
  applied.tokens = std::move(event.tokens);
  applied.routes = std::move(event.routes);
  if (!event.finish) return applied;
  if (event.finish->reason == FinishReason::kError) {
    applied.rollout = fail(event.id, event.finish->error);
    return applied;
  }
  applied.rollout = close(std::move(entry), *std::move(event.finish));
  sequences_.erase(found);
  return applied;
}

std::vector<SequenceId> RequestLedger::ids() const {
  std::vector<SequenceId> ids;
  for (const auto& [id, entry] : sequences_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace rlgen::generation
