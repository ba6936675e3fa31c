#pragma once

#include <cstdint>
#include <vector>

#include "contract/request.h"

namespace rlgen::cli {

// Makes requests of random ids. A prompt is known by its index: the same index and length give the
// same ids, and two indices differ from the first ids on. One thread uses it.
class PromptMaker {
 public:
  explicit PromptMaker(int32_t vocab_size) : vocab_size_(static_cast<uint64_t>(vocab_size)) {}

  // A request for `max_tokens` new tokens after prompt `index`; its id is the next one.
  SequenceRequest request(uint64_t index, int32_t tokens, int32_t max_tokens);

  // Prompts 0 .. count-1, which are the same at each call, so that the prefix cache may hold them.
  std::vector<SequenceRequest> repeated(int32_t count, int32_t tokens, int32_t max_tokens);

  // Prompts that no call has made before.
  std::vector<SequenceRequest> fresh(int32_t count, int32_t tokens, int32_t max_tokens);

 private:
  uint64_t vocab_size_;
  uint64_t next_prompt_ = 0;
  SequenceId next_id_ = 1;
};

}  // namespace rlgen::cli
