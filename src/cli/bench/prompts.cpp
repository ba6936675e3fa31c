#include "cli/bench/prompts.h"

#include <algorithm>
#include <utility>

namespace rlgen::cli {

SequenceRequest PromptMaker::request(uint64_t index, int32_t tokens, int32_t max_tokens) {
  SequenceRequest request{.id = next_id_};
  ++next_id_;
  uint64_t state = index + 1;
  for (int32_t t = 0; t < tokens; ++t) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t mixed = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9u;
    mixed ^= mixed >> 32;
    request.prompt_token_ids.push_back(static_cast<int32_t>(mixed % vocab_size_));
  }
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.seed = static_cast<int64_t>(index);
  return request;
}

std::vector<SequenceRequest> PromptMaker::repeated(int32_t count, int32_t tokens,
                                                   int32_t max_tokens) {
  std::vector<SequenceRequest> all;
  for (int32_t i = 0; i < count; ++i) {
    all.push_back(request(static_cast<uint64_t>(i), tokens, max_tokens));
  }
  next_prompt_ = std::max(next_prompt_, static_cast<uint64_t>(count));
  return all;
}

std::vector<SequenceRequest> PromptMaker::fresh(int32_t count, int32_t tokens, int32_t max_tokens) {
  std::vector<SequenceRequest> all;
  for (int32_t i = 0; i < count; ++i) all.push_back(request(next_prompt_++, tokens, max_tokens));
  return all;
}

}  // namespace rlgen::cli
