#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/float_mode.h"
#include "engine/core.h"
#include "engine/stop_rules.h"

namespace rlgen::engine {

bool EngineCore::step(Admission admission) {
  const ScopedFloatMode mode(FloatMode::kGradual);
  scheduler_.admit(admission);
  const Plan plan = scheduler_.plan();
  forward(plan);
  sample();
  emit(plan);
  return !plan.empty();
}

void EngineCore::add_to_batch(const PlannedRows& planned) {
  Sequence& sequence = *planned.sequence;
  const int32_t first = sequence.computed;
  if (!sequence.oldest_kv) sequence.oldest_kv = weights_->version();
  const auto first_row = int64_t(batch_.token_ids.size());
  batch_.sequences.push_back({.id = sequence.request.id,
                              .block_table = sequence.block_table,
                              .first_row = first_row,
                              .rows = planned.rows,
                              .first_position = first});
  for (int32_t row = first; row < first + planned.rows; ++row) {
    batch_.token_ids.push_back(sequence.tokens[size_t(row)]);
    if (!sequence.wants(row)) continue;
    batch_.wanted_rows.push_back(int32_t(first_row) + row - first);
    wanted_.push_back({.sequence = &sequence, .position = row + 1, .record = {}, .status = {}});
  }
}

void EngineCore::forward(const Plan& plan) {
  batch_.token_ids.clear();
  batch_.sequences.clear();
  batch_.wanted_rows.clear();
  wanted_.clear();
  if (plan.empty()) return;
  batch_.observer = parts_.observer;
  for (const PlannedRows& planned : plan) add_to_batch(planned);
  const size_t needed = wanted_.size() * size_t(parts_.decoder->spec.vocab_rows);
  if (logits_.size() < needed) logits_.resize(needed);
  place_routes(plan);
  models::forward(*parts_.decoder, *weights_, batch_, allocator_.view(),
                  {parts_.kernels, &pool_, parts_.profile}, &workspace_, logits_.data());
  store_routes();
}

void EngineCore::sample() {
  const auto vocab_rows = size_t(parts_.decoder->spec.vocab_rows);
  pool_.run(int64_t(wanted_.size()), [&](int64_t row, int thread) {
    sample_row(&wanted_[size_t(row)], logits_.data() + size_t(row) * vocab_rows,
               &scratch_[size_t(thread)]);
  });
}

void EngineCore::sample_row(WantedRow* row, float* logits, SampleScratch* scratch) const {
  const Sequence& sequence = *row->sequence;
  const std::span<const int32_t> tokens(sequence.tokens);
  const auto position = size_t(row->position);
  SampleRow input{.logits = {logits, size_t(parts_.decoder->spec.vocab_rows)},
                  .vocab_size = options_.limits.vocab_size,
                  .params = &sequence.request.sampling,
                  .stop_ids = sequence.stop_ids,
                  .sample_index = sequence.request.sample_index,
                  .position = row->position};
  if (row->position < sequence.prompt_len) {
    input.params = &sequence.prompt_sampling;
    input.prompt = tokens.first(position);
    input.stop_ids = {};
  } else {
    const auto output_begin = size_t(sequence.output_begin());
    input.prompt = tokens.first(output_begin);
    input.output = tokens.subspan(output_begin, position - output_begin);
  }
  row->status = position < tokens.size()
                    ? score_token(*parts_.kernels, input, tokens[position], scratch, &row->record)
                    : sample_token(*parts_.kernels, input, scratch, &row->record);
  row->record.version = weights_->version();
  row->record.oldest_kv = *sequence.oldest_kv;
}

void EngineCore::emit(const Plan& plan) {
  steps_ += plan.empty() ? 0 : 1;
  size_t next = 0;
  events_.reserve(events_.size() + plan.size());
  for (const PlannedRows& planned : plan) {
    Sequence* sequence = planned.sequence;
    const bool output_row = planned.wanted > 0 && sequence->remaining() == planned.rows &&
                            int32_t(sequence->tokens.size()) > sequence->prompt_len;
    prompt_tokens_ += planned.rows - (output_row && sequence->makes_tokens() ? 1 : 0);
    scheduler_.advance(sequence, planned.rows);
    SequenceEvent event;
    event.id = sequence->request.id;
    for (int32_t i = 0; i < planned.wanted; ++i) {
      WantedRow& row = wanted_[next++];
      if (!event.finish) apply(&row, &event);
    }
    const bool news = event.finish || !event.tokens.empty() || !event.prompt.empty();
    const bool failed = event.finish && event.finish->reason == FinishReason::kError;
    if (news && !failed) deliver_routes(sequence, &event);
    if (event.finish) {
      event.finish->cached_tokens = sequence->cached_tokens.value_or(0);
      scheduler_.finish(event.id);
    }
    if (news) events_.push_back(std::move(event));
  }
  emit_pending();
}

void EngineCore::emit_pending() {
  if (events_.empty()) return;
  parts_.sink->on_events(std::exchange(events_, {}));
}

void EngineCore::apply(WantedRow* row, SequenceEvent* event) {
  if (!row->status.ok()) {
    const Status status = annotate(row->status, fmt::format("position {}", row->position));
    event->finish = Finish{.reason = FinishReason::kError, .error = status};
    return;
  }
  if (row->position < row->sequence->prompt_len) return apply_prompt(row, event);
  if (row->sequence->request.score_only) return apply_score(row, event);
  apply_token(row, event);
}

void EngineCore::apply_prompt(WantedRow* row, SequenceEvent* event) {
  Sequence* sequence = row->sequence;
  sequence->prompt_records.push_back(std::move(row->record));
  sequence->next_prompt = row->position + 1;
  if (sequence->next_prompt == sequence->prompt_len) {
    event->prompt = std::exchange(sequence->prompt_records, {});
    event->finish = sequence->ending;
  }
}

void EngineCore::apply_score(WantedRow* row, SequenceEvent* event) {
  Sequence* sequence = row->sequence;
  event->tokens.push_back(std::move(row->record));
  sequence->next_score = row->position + 1;
  if (sequence->next_score == int32_t(sequence->tokens.size())) {
    event->finish = Finish{.reason = FinishReason::kStop};
  }
}

void EngineCore::apply_token(WantedRow* row, SequenceEvent* event) {
  Sequence* sequence = row->sequence;
  sequence->tokens.push_back(row->record.token);
  event->tokens.push_back(std::move(row->record));
  ++generated_tokens_;
  event->finish = stop_at_token(options_.limits, *sequence, row->position);
  if (!event->finish) event->finish = stop_at_length(options_.limits, *sequence);
}

}  // namespace rlgen::engine
