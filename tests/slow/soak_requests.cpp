#include "slow/soak_requests.h"

#include <algorithm>

namespace rlgen::engine {
namespace {

constexpr int32_t kVocab = 160;
constexpr int32_t kContext = 128;
constexpr int32_t kBeginnings = 12;  // different ones

std::vector<int32_t> ids_of(Dice dice, int32_t count) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(3 + dice.roll(kVocab - 3));
  return ids;
}

// Mostly short, some nearly as long as the context.
std::vector<int32_t> some_prompt(Dice& dice) {
  const int32_t length = dice.one_in(6) ? 60 + dice.roll(60) : 1 + dice.roll(50);
  std::vector<int32_t> prompt;
  if (dice.one_in(2)) prompt = ids_of(Dice(uint64_t(dice.roll(kBeginnings))), std::min(length, 48));
  const auto rest = ids_of(Dice(uint64_t(1000 + dice.roll(1 << 30))), length);
  prompt.insert(prompt.end(), rest.begin() + ptrdiff_t(prompt.size()), rest.end());
  return prompt;
}

SamplingParams some_sampling(Dice& dice) {
  SamplingParams sampling;
  sampling.seed = dice.roll(1 << 30);
  sampling.max_tokens = dice.one_in(5) ? 1 + dice.roll(110) : 1 + dice.roll(30);
  sampling.logprobs_mode = LogprobsMode(dice.roll(3));
  sampling.logprobs = dice.one_in(3) ? dice.roll(5) : 0;
  sampling.temperature = 0.25f + 0.125f * float(dice.roll(12));
  if (dice.one_in(8)) sampling.temperature = 0.0f;
  if (dice.one_in(3)) sampling.top_p = 0.8f;
  if (dice.one_in(4)) sampling.top_k = 1 + dice.roll(40);
  if (dice.one_in(6)) sampling.min_p = 0.05f;
  if (dice.one_in(5)) sampling.repetition_penalty = 1.25f;
  if (dice.one_in(6)) sampling.presence_penalty = 0.5f;
  if (dice.one_in(6)) sampling.frequency_penalty = -0.25f;
  if (dice.one_in(9)) sampling.logit_bias = {{3, 1.5f}, {7, -2.0f}};
  if (dice.one_in(9)) sampling.bad_words_ids = {{11}, {12, 13}};
  if (dice.one_in(7)) sampling.stop_token_ids = {40, 41, 42};
  if (dice.one_in(8)) sampling.min_tokens = std::min(3, *sampling.max_tokens);
  if (dice.one_in(12)) sampling.prompt_logprobs = dice.roll(3);
  if (dice.one_in(4)) sampling.ignore_eos = true;
  return sampling;
}

// Any ids can be scored where nothing is excluded.
void make_score(SequenceRequest* request, Dice& dice) {
  const auto room = kContext - int32_t(request->prompt_token_ids.size());
  request->score_only = true;
  request->output_token_ids = ids_of(Dice(uint64_t(dice.roll(1 << 30))), 1 + dice.roll(room));
  SamplingParams& sampling = request->sampling;
  sampling = {.temperature = sampling.temperature,
              .max_tokens = int32_t(request->output_token_ids.size()),
              .seed = sampling.seed,
              .logprobs_mode = sampling.logprobs_mode,
              .logprobs = sampling.logprobs};
}

// For a while nearly all answers are far shorter than they might be, then nearly all are long, so
// that what is expected of them is wrong.
void follow_fashion(SamplingParams* sampling, Dice& dice, bool brief) {
  if (dice.one_in(4)) return;
  sampling->max_tokens = 100;
  sampling->stop_token_ids.clear();
  for (int32_t id = 3; brief && id < kVocab; id += 3) sampling->stop_token_ids.push_back(id);
  sampling->ignore_eos = !brief;
}

SequenceRequest some_request(Dice& dice, bool brief) {
  SequenceRequest request;
  request.prompt_token_ids = some_prompt(dice);
  request.sampling = some_sampling(dice);
  follow_fashion(&request.sampling, dice, brief);
  if (dice.one_in(6)) make_score(&request, dice);
  if (dice.one_in(10)) request.priority = dice.roll(5) - 2;
  if (dice.one_in(10)) request.cache_salt.assign(1, dice.one_in(2) ? 'a' : 'b');
  if (dice.one_in(50)) request.prompt_token_ids[0] = kVocab;
  return request;
}

}  // namespace

int32_t Dice::roll(int32_t sides) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return int32_t((state_ >> 33) % uint64_t(sides));
}

std::vector<SequenceRequest> soak_requests(int32_t count) {
  Dice dice(4);
  std::vector<SequenceRequest> requests;
  while (int32_t(requests.size()) < count) {
    SequenceRequest request = some_request(dice, requests.size() / 100 % 2 == 0);
    const int32_t samples = dice.one_in(4) ? 2 + dice.roll(7) : 1;
    for (int32_t i = 0; i < samples && int32_t(requests.size()) < count; ++i) {
      request.id = requests.size();
      request.sample_index = i;
      requests.push_back(request);
    }
  }
  return requests;
}

}  // namespace rlgen::engine
