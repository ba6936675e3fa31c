#include "engine/sample/logit_edits.h"

#include <algorithm>
#include <limits>

namespace rlgen::engine {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

bool inside(std::span<float> logits, int32_t id) {
  return id >= 0 && static_cast<size_t>(id) < logits.size();
}

// Whether prompt followed by output ends in `tail`.
bool ends_in(std::span<const int32_t> prompt, std::span<const int32_t> output,
             std::span<const int32_t> tail) {
  if (tail.size() > prompt.size() + output.size()) return false;
  const size_t from_output = std::min(tail.size(), output.size());
  const auto last = tail.last(from_output);
  const auto first = tail.first(tail.size() - from_output);
  return std::ranges::equal(last, output.last(from_output)) &&
         std::ranges::equal(first, prompt.last(first.size()));
}

// A mark: bit 0 for "in the prompt", the rest counts occurrences in the output.
constexpr uint32_t kInPrompt = 1;
constexpr uint32_t kOneOutput = 2;

float penalized(float logit, const Penalties& penalties, uint32_t mark) {
  if (penalties.repetition != 1.0f) {
    logit = logit > 0.0f ? logit / penalties.repetition : logit * penalties.repetition;
  }
  const uint32_t count = mark / kOneOutput;
  if (count > 0) {
    logit -= penalties.frequency * static_cast<float>(count);
    logit -= penalties.presence;
  }
  return logit;
}

}  // namespace

void keep_only(std::span<float> logits, std::span<const int32_t> ids, std::vector<float>* saved) {
  saved->clear();
  for (int32_t id : ids) saved->push_back(inside(logits, id) ? logits[id] : kBanned);
  std::ranges::fill(logits, kBanned);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (inside(logits, ids[i])) logits[ids[i]] = (*saved)[i];
  }
}

void ban(std::span<float> logits, std::span<const int32_t> ids) {
  for (int32_t id : ids) {
    if (inside(logits, id)) logits[id] = kBanned;
  }
}

void ban_words(std::span<float> logits, std::span<const std::vector<int32_t>> words,
               std::span<const int32_t> prompt, std::span<const int32_t> output) {
  for (const auto& word : words) {
    if (word.empty() || !inside(logits, word.back())) continue;
    if (ends_in(prompt, output, std::span(word).first(word.size() - 1))) {
      logits[word.back()] = kBanned;
    }
  }
}

void add_bias(std::span<float> logits, std::span<const std::pair<int32_t, float>> bias) {
  for (const auto& [id, value] : bias) {
    if (inside(logits, id)) logits[id] += value;
  }
}

void penalize(std::span<float> logits, const Penalties& penalties, std::span<const int32_t> prompt,
              std::span<const int32_t> output, std::vector<uint32_t>* marks) {
  if (!penalties.on()) return;
  if (marks->size() < logits.size()) marks->resize(logits.size(), 0);
  const auto counted_prompt = penalties.repetition != 1.0f ? prompt : std::span<const int32_t>();
  for (int32_t id : counted_prompt) {
    if (inside(logits, id)) (*marks)[id] |= kInPrompt;
  }
  for (int32_t id : output) {
    if (inside(logits, id)) (*marks)[id] += kOneOutput;
  }
  for (const auto ids : {counted_prompt, output}) {
    for (int32_t id : ids) {
      if (!inside(logits, id) || (*marks)[id] == 0) continue;
      logits[id] = penalized(logits[id], penalties, (*marks)[id]);
      (*marks)[id] = 0;
    }
  }
}

}  // namespace rlgen::engine
