#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// Edits of one row of logits before its distribution is taken, in the order in which the sampler
// applies them. Pure functions; an id outside the row is passed over; -inf means "banned" and
// nothing lifts it again. Memory that a call needs is the caller's and is reused.
namespace rlgen::engine {

// Bans every id that is not in `ids` (any order, repeats allowed).
void keep_only(std::span<float> logits, std::span<const int32_t> ids, std::vector<float>* saved);

void ban(std::span<float> logits, std::span<const int32_t> ids);

// Bans the last id of each word whose other ids are what `prompt` followed by `output` ends in. A
// word of one id is always banned, an empty one is passed over.
void ban_words(std::span<float> logits, std::span<const std::vector<int32_t>> words,
               std::span<const int32_t> prompt, std::span<const int32_t> output);

// logits[id] += value.
void add_bias(std::span<float> logits, std::span<const std::pair<int32_t, float>> bias);

struct Penalties {
  float repetition = 1.0f;  // 1 is off
  float presence = 0.0f;    // 0 is off
  float frequency = 0.0f;   // 0 is off

  bool on() const { return repetition != 1.0f || presence != 0.0f || frequency != 0.0f; }
};

// For each id met in prompt or output, once: a positive logit is divided by `repetition`, any other
// multiplied (Keskar et al., "CTRL", 2019, in the form of Transformers and vLLM). Then for each id
// met c > 0 times in the output: minus frequency * c, minus presence. `marks` is all zero before
// and after the call.
void penalize(std::span<float> logits, const Penalties& penalties, std::span<const int32_t> prompt,
              std::span<const int32_t> output, std::vector<uint32_t>* marks);

}  // namespace rlgen::engine
