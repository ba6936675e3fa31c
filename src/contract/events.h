#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "contract/ids.h"
#include "contract/routes/route_span.h"

namespace rlgen {

enum class FinishReason { kStop, kLength, kAbort, kError };

// "stop", "length", "abort", "error".
std::string_view finish_reason_name(FinishReason reason);

// What stopped a sequence: nothing named (end of sequence, length), a token id, a stop string, or
// a reason in words.
using StopReason = std::variant<std::monostate, int32_t, std::string>;

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

// One token with everything that is known of it.
struct TokenRecord {
  int32_t token = 0;
  float logprob = 0.0f;           // in the request's mode; always finite
  std::vector<TokenLogprob> top;  // best first, ties by lower id; excludes what cannot be drawn
  WeightVersion version = 0;      // of the weights that made the token
  WeightVersion oldest_kv = 0;    // oldest version among the weights that made the KV it read
};

struct Finish {
  FinishReason reason = FinishReason::kStop;
  StopReason stop_reason;
  bool context_full = false;  // ended because no position of the context was left
  Status error;               // not OK exactly for kError
  // Tokens whose KV the first prefill took from the prefix cache instead of computing it. Depends
  // on what ran before; no other field does.
  int32_t cached_tokens = 0;
};

// News of one sequence from one step.
struct SequenceEvent {
  SequenceId id = 0;
  std::vector<TokenRecord> tokens;
  // With prompt_logprobs: records of prompt positions 1, 2, ... (position 0 has none), once,
  // together with or before the first token.
  std::vector<TokenRecord> prompt;
  // Where the shard records routes: of the rows that follow those delivered before, as far as they
  // were computed. A row is delivered once; what becomes of its keys and values later changes
  // nothing.
  RouteSpan routes;
  std::optional<Finish> finish;  // the last event of a sequence
};

// All news of one step.
using EventBatch = std::vector<SequenceEvent>;

// Receives the events of a shard. Called from the shard's own thread, one call per step, in order;
// it must return soon and must not call back into the shard other than submit and cancel.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_events(EventBatch events) = 0;
};

}  // namespace rlgen
