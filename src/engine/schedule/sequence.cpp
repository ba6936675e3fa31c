#include "engine/schedule/sequence.h"

namespace rlgen::engine {

bool Sequence::wants(int32_t row) const {
  const int32_t position = row + 1;
  if (position < prompt_len) return position >= next_prompt;
  if (request.score_only) return position >= next_score;
  return position == int32_t(tokens.size());
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
  blocks.clear();
  block_table.clear();
  computed = 0;
  mixed_kv = false;
}

}  // namespace rlgen::engine
