#include "engine/schedule/sequence.h"

namespace rlgen::engine {

bool Sequence::wants(int32_t row) const {
  const int32_t position = row + 1;
  if (position < prompt_len) return position >= next_prompt;
  if (request.score_only) return position >= next_score;
  return makes_tokens() && position == int32_t(tokens.size());
}

int32_t Sequence::first_wanted() const {
  if (next_prompt < prompt_len) return next_prompt - 1;
  return request.score_only ? next_score - 1 : int32_t(tokens.size()) - 1;
}

int32_t Sequence::rows_within(int32_t rows, int32_t cap, int32_t* wanted) const {
  *wanted = 0;
  for (int32_t i = 0; i < rows; ++i) {
    if (!wants(computed + i)) continue;
    if (*wanted == cap) return i;
    ++*wanted;
  }
  return rows;
}

void Sequence::drop_kv() {
  while (!blocks.empty()) blocks.pop_back();
  block_table.clear();
  computed = 0;
  mixed_kv = false;
  oldest_kv.reset();
  published = 0;
  cache_parent = 0;
  taken = 0;
  prefilled = false;
}

}  // namespace rlgen::engine
