#include "engine/sample/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sample/alternatives.h"
#include "engine/sample/logit_edits.h"
#include "kernels/sampling.h"

namespace rlgen::engine {
namespace {

using kernels::KernelTable;
using kernels::RowSums;
using kernels::Threshold;

// Below it a division of ordinary logits can overflow, so the row is moved to a maximum of 0 first.
constexpr float kSmallTemperature = 0x1p-64f;

// One distribution over the row: logits, and the sums that turn them into log-probabilities.
struct Distribution {
  std::span<float> logits;
  RowSums sums;
};

// What a row became: the distribution that values refer to, and which tokens can be drawn.
struct PreparedRow {
  Distribution values;
  std::span<const float> logits;   // after every edit; -inf where banned
  std::span<const float> weights;  // of what survives; empty where nobody needs them
  Threshold keep;
  int32_t argmax = 0;
};

Status non_finite(std::string_view when) {
  return absl::DataLossError(fmt::format(
      "non-finite logits{}: the model's output has a NaN or an infinity; check the weights", when));
}

// Of a row that was finite before the request's own parameters.
Status overflow() {
  return absl::InvalidArgumentError(
      "logit_bias, the penalties or the temperature made a logit larger than a float32 can be; "
      "choose milder ones");
}

Penalties penalties_of(const SamplingParams& params) {
  return {params.repetition_penalty, params.presence_penalty, params.frequency_penalty};
}

bool holds_back_stops(const SampleRow& row) {
  return row.output.size() < static_cast<size_t>(row.params->min_tokens) && !row.stop_ids.empty();
}

bool has_edits(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  return params.allowed_token_ids.has_value() || !params.bad_words_ids.empty() ||
         holds_back_stops(row) || !params.logit_bias.empty() || penalties_of(params).on();
}

// Every edit before the temperature, in the documented order.
void apply_edits(const SampleRow& row, std::span<float> logits, SampleScratch* scratch) {
  const SamplingParams& params = *row.params;
  if (params.allowed_token_ids) keep_only(logits, *params.allowed_token_ids, &scratch->saved);
  ban_words(logits, params.bad_words_ids, row.prompt, row.output);
  if (holds_back_stops(row)) ban(logits, row.stop_ids);
  add_bias(logits, params.logit_bias);
  penalize(logits, penalties_of(params), row.prompt, row.output, &scratch->marks);
}

float temperature_of(const SamplingParams& params) {
  return params.greedy() ? 1.0f : params.temperature;
}

void divide_by_temperature(const KernelTable& table, std::span<float> logits, float temperature) {
  if (temperature == 1.0f) return;
  const auto n = static_cast<int64_t>(logits.size());
  float shift = 0.0f;
  if (temperature < kSmallTemperature)
    shift = table.row_sums(logits.data(), n, nullptr, nullptr).max;
  if (shift == -std::numeric_limits<float>::infinity()) return;
  table.row_divide(logits.data(), n, shift, temperature);
}

bool has_filters(const SamplingParams& params, int64_t n) {
  const bool top_k = params.top_k_on() && params.top_k < n;
  return !params.greedy() && (top_k || params.min_p > 0.0f || params.top_p < 1.0f);
}

// min-p, top-k, top-p over weights p of this mass; zeroes what they exclude. Returns the mass that
// is left.
double apply_filters(const KernelTable& table, const SamplingParams& params, std::span<float> p,
                     double mass, double* blocks, Threshold* keep) {
  const auto n = static_cast<int64_t>(p.size());
  const auto narrow = [&](Threshold threshold) {
    *keep = stricter(*keep, threshold);
    mass = table.row_keep(p.data(), n, *keep, blocks);
  };
  // The largest weight is 1, so min_p is the least weight as it stands.
  Threshold first;
  if (params.min_p > 0.0f) first.value = params.min_p;
  if (params.top_k_on() && params.top_k < n) {
    first = stricter(first, top_k_threshold(table, p.data(), n, params.top_k));
  }
  if (first.value > 0.0f || params.top_p >= 1.0f) narrow(first);
  if (params.top_p < 1.0f) narrow(top_p_threshold(table, p.data(), n, params.top_p, mass));
  return mass;
}

// The distribution of the mode where it is not that of the edited row: over the model's logits,
// tempered or not. `raw` holds them.
StatusOr<Distribution> unedited(const KernelTable& table, const SamplingParams& params,
                                std::span<float> raw) {
  if (params.logprobs_mode == LogprobsMode::kTempered) {
    divide_by_temperature(table, raw, temperature_of(params));
  }
  const RowSums sums =
      table.row_sums(raw.data(), static_cast<int64_t>(raw.size()), nullptr, nullptr);
  if (sums.invalid) return overflow();
  return Distribution{raw, sums};
}

bool needs_raw_copy(const SampleRow& row, bool edited) {
  const LogprobsMode mode = row.params->logprobs_mode;
  if (mode == LogprobsMode::kProcessed) return false;
  const bool tempered_row = temperature_of(*row.params) != 1.0f;
  return edited || (mode == LogprobsMode::kRaw && tempered_row);
}

StatusOr<PreparedRow> prepare(const KernelTable& table, const SampleRow& row, bool draws,
                              SampleScratch* scratch) {
  const SamplingParams& params = *row.params;
  const auto logits =
      row.logits.first(std::min(row.logits.size(), static_cast<size_t>(row.vocab_size)));
  const auto n = static_cast<int64_t>(logits.size());
  const bool edited = has_edits(row);
  const bool raw_copy = needs_raw_copy(row, edited);
  if (raw_copy) scratch->raw.assign(logits.begin(), logits.end());
  if (edited) {
    // A ban would hide a NaN, and the answer would depend on which ids are banned.
    if (table.row_sums(logits.data(), n, nullptr, nullptr).invalid) return non_finite("");
    apply_edits(row, logits, scratch);
  }
  divide_by_temperature(table, logits, temperature_of(params));

  const bool filtered = has_filters(params, n);
  const bool weighed = filtered || (draws && !params.greedy());
  if (weighed) {
    scratch->probabilities.resize(logits.size());
    scratch->blocks.resize(static_cast<size_t>(kernels::row_blocks(n)));
  }
  float* p = weighed ? scratch->probabilities.data() : nullptr;
  double* blocks = weighed ? scratch->blocks.data() : nullptr;
  RowSums sums = table.row_sums(logits.data(), n, p, blocks);
  if (sums.invalid && edited) return overflow();
  if (sums.invalid) return non_finite("");
  if (sums.sum == 0.0) {
    return absl::FailedPreconditionError(
        "no token is left to draw: allowed_token_ids, bad words, min_tokens and logit_bias ban "
        "every id; allow at least one");
  }

  PreparedRow prepared{.values = {logits, sums}, .logits = logits, .weights = {}, .keep = {}};
  prepared.argmax = sums.argmax;
  if (weighed) prepared.weights = scratch->probabilities;
  if (filtered) {
    sums.sum =
        apply_filters(table, params, scratch->probabilities, sums.sum, blocks, &prepared.keep);
  }
  if (params.logprobs_mode == LogprobsMode::kProcessed) prepared.values.sums = sums;
  if (raw_copy) {
    RLGEN_ASSIGN_OR_RETURN(prepared.values, unedited(table, params, scratch->raw));
  }
  return prepared;
}

bool can_be_drawn(const PreparedRow& row, int32_t token) {
  if (row.logits[token] == -std::numeric_limits<float>::infinity()) return false;
  return row.weights.empty() || survives(row.keep, row.weights[token], token);
}

Status check_value(float logprob, int32_t token, const SamplingParams& params) {
  if (std::isfinite(logprob)) return absl::OkStatus();
  if (params.logprobs_mode == LogprobsMode::kTempered) {
    return absl::InvalidArgumentError(fmt::format(
        "temperature is {}; the tempered log-probability of token {} is below what a float32 can "
        "be: raise the temperature or use another logprobs_mode",
        params.temperature, token));
  }
  return absl::DataLossError(fmt::format(
      "the log-probability of token {} is {}, which no record may carry", token, logprob));
}

Status fill_record(const PreparedRow& row, int32_t token, const SamplingParams& params,
                   TokenRecord* record) {
  const Distribution& values = row.values;
  record->token = token;
  record->logprob = row_logprob(values.sums, values.logits[token]);
  RLGEN_RETURN_IF_ERROR(check_value(record->logprob, token, params));
  record->top.clear();
  if (params.logprobs == 0) return absl::OkStatus();
  best_tokens(
      values.logits, params.logprobs, [&](int32_t id) { return can_be_drawn(row, id); },
      &record->top);
  for (TokenLogprob& entry : record->top) {
    entry.logprob = row_logprob(values.sums, values.logits[entry.token]);
    RLGEN_RETURN_IF_ERROR(check_value(entry.logprob, entry.token, params));
  }
  sort_best_first(&record->top);
  return absl::OkStatus();
}

Status check_row(const SampleRow& row) {
  if (row.logits.empty() || row.vocab_size < 1) {
    return absl::InvalidArgumentError(fmt::format("a row of {} logits and {} ids has no token",
                                                  row.logits.size(), row.vocab_size));
  }
  return absl::OkStatus();
}

}  // namespace

Status sample_token(const KernelTable& table, const SampleRow& row, SampleScratch* scratch,
                    TokenRecord* record) {
  RLGEN_RETURN_IF_ERROR(check_row(row));
  const SamplingParams& params = *row.params;
  if (!params.greedy() && !params.seed) {
    return absl::InvalidArgumentError("seed is not set; a request gets one before it is sampled");
  }
  RLGEN_ASSIGN_OR_RETURN(const PreparedRow prepared, prepare(table, row, true, scratch));
  int32_t token = prepared.argmax;
  if (!params.greedy()) {
    const double u = kernels::uniform(static_cast<uint64_t>(*params.seed),
                                      static_cast<uint32_t>(row.sample_index),
                                      static_cast<uint64_t>(row.position));
    token = kernels::draw(prepared.weights.data(), scratch->blocks.data(),
                          static_cast<int64_t>(prepared.weights.size()), u);
  }
  return fill_record(prepared, token, params, record);
}

Status score_token(const KernelTable& table, const SampleRow& row, int32_t token,
                   SampleScratch* scratch, TokenRecord* record) {
  RLGEN_RETURN_IF_ERROR(check_row(row));
  RLGEN_ASSIGN_OR_RETURN(const PreparedRow prepared, prepare(table, row, false, scratch));
  const auto n = static_cast<int64_t>(prepared.logits.size());
  if (token < 0 || token >= n) {
    return absl::InvalidArgumentError(
        fmt::format("token {} cannot be scored; ids go from 0 to {}", token, n - 1));
  }
  if (!can_be_drawn(prepared, token)) {
    return absl::InvalidArgumentError(
        fmt::format("token {} has no log-probability: the sampling parameters exclude it; score it "
                    "with those it was drawn with",
                    token));
  }
  return fill_record(prepared, token, *row.params, record);
}

}  // namespace rlgen::engine
