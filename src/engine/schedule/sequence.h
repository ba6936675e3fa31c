#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "contract/events.h"
#include "contract/request.h"
#include "contract/token_watcher.h"
#include "engine/kv/block.h"

namespace rlgen::engine {

struct BlockKey;

// A sequence in flight: what was asked, every token so far, and how much of it has KV. Owned by the
// scheduler, touched by the engine's thread only.
//
// Positions count from 0 over prompt and output together. "Row p" is token p going through the
// model; its logits predict position p + 1.
struct Sequence {
  Sequence() = default;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() { drop_kv(); }

  SequenceRequest request;
  uint64_t arrival = 0;

  std::vector<int32_t> tokens;  // prompt, then output (earlier and new); given whole for scoring
  int32_t prompt_len = 0;       // ids of request.prompt_token_ids
  int32_t token_limit = 0;      // tokens never grows beyond
  int32_t computed = 0;         // rows 0 .. computed-1 have KV in blocks
  std::vector<KvBlock> blocks;
  std::vector<int32_t> block_table;  // ids of blocks

  bool started = false;   // was admitted at least once
  bool running = false;   // is admitted
  int32_t put_back = 0;   // times that it lost its blocks for want of them
  bool mixed_kv = false;  // holds KV of several sets of weights
  // Of the weights that made row 0's KV; known once a row has gone through the model.
  std::optional<WeightVersion> oldest_kv;

  const BlockKey* tail = nullptr;        // under which others find its prompt's tail; null: nowhere
  int32_t published = 0;                 // blocks at the front that the prefix cache knows
  uint64_t cache_parent = 0;             // entry of the last of them
  int32_t taken = 0;                     // rows of the last prefill that came from the cache
  bool prefilled = false;                // the last prefill is done
  std::optional<int32_t> cached_tokens;  // `taken` of the first prefill, once it is done

  // Set where no token may come, but prompt records are wanted: how it ends once they are made.
  std::optional<Finish> ending;

  int32_t routes_given = 0;  // routes of the rows before were delivered, or not wanted

  int32_t next_prompt = 0;  // next prompt position without a record; prompt_len when none is wanted
  int32_t next_score = 0;   // scoring: next output position without a record
  SamplingParams prompt_sampling;           // what prompt records are made with
  std::vector<TokenRecord> prompt_records;  // made, not yet delivered
  std::vector<int32_t> stop_ids;            // ascending; what min_tokens holds back
  std::unique_ptr<TokenWatcher> watcher;    // null without stop strings

  // Blocks of it hold what the token ids and one set of weights make, so that others may have them.
  bool shares_blocks() const { return !mixed_kv && request.routed_experts == nullptr; }

  bool makes_tokens() const { return !request.score_only && !ending; }

  // Rows that must have gone through the model before the sequence can go on.
  int32_t target() const {
    const auto size = int32_t(tokens.size());
    return makes_tokens() ? size : size - 1;
  }
  int32_t remaining() const { return target() - computed; }

  // The logits of row p are wanted.
  bool wants(int32_t row) const;
  // The first row whose logits are wanted; rows before it need no more than KV.
  int32_t first_wanted() const;
  // Rows at the front of the next `rows` such that at most `cap` of them are wanted.
  int32_t rows_within(int32_t rows, int32_t cap, int32_t* wanted) const;

  // Ids that count as output: the output prefix inside the prompt and everything after.
  int32_t output_begin() const { return prompt_len - request.sampling.output_prefix_len; }
  int32_t output_len() const { return int32_t(tokens.size()) - output_begin(); }

  // Tokens that it may still make.
  int32_t allowance() const { return makes_tokens() ? token_limit - int32_t(tokens.size()) : 0; }
  // Rows that it may come to have; the last token needs none.
  int32_t most_rows() const { return makes_tokens() ? token_limit - 1 : target(); }

  // Lower runs first.
  std::pair<int32_t, uint64_t> order() const { return {request.priority, arrival}; }

  // Gives the blocks back, the last one first; every row has to be computed again.
  void drop_kv();
};

}  // namespace rlgen::engine
