#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "contract/events.h"
#include "contract/rollout.h"

namespace rlgen::generation {

// What a sequence was asked for.
struct OpenSequence {
  std::string id;
  int32_t sample = 0;
  std::vector<int32_t> prompt_token_ids;
  SamplingParams sampling;
  std::string numerics;
  std::optional<int32_t> shard;  // that serves it; nothing where none is needed
  bool score_only = false;
  std::vector<int32_t> score_token_ids;  // the tokens to score, with score_only
  RouteFacts routes;                     // that its shard records
  GivenRoutes given_routes;              // that it takes; null: none
};

// Sequences in flight: turns the events of shards into rollouts and believes nothing. What comes
// must be what was asked for: a log-probability for every token, finite and not above 0, at every
// position; the scored tokens themselves; no more tokens than max_tokens; prompt values for every
// prompt position after the first; where routes are recorded, rows that follow one another, of
// experts that there are, for no more tokens than came. What does not fit ends the sequence as an
// error that names the position; no value is ever filled in. Pure: no threads, no clock; the owner
// locks.
class RequestLedger {
 public:
  // kAlreadyExists for an id in flight.
  Status open(SequenceId id, OpenSequence sequence);

  struct Applied {
    int32_t sample = 0;
    std::vector<TokenRecord> tokens;  // that came with this event
    RouteSpan routes;                 // that came with it too
    std::optional<Rollout> rollout;   // when the sequence is finished (without text)
    bool reject = false;              // finished by the ledger: the shard should stop it
  };

  // kNotFound for an id that is not in flight (the events of a rejected sequence are such).
  StatusOr<Applied> apply(SequenceEvent event);

  // Ends the sequence with `error` and gives its rollout; nothing when it is not in flight.
  std::optional<Rollout> fail(SequenceId id, const Status& error);

  // Drops a sequence without a rollout.
  void forget(SequenceId id) { sequences_.erase(id); }

  size_t size() const { return sequences_.size(); }
  std::vector<SequenceId> ids() const;

 private:
  struct Entry {
    OpenSequence asked;
    std::vector<TokenRecord> tokens;
    std::vector<TokenRecord> prompt;
    RouteSpan routes;
  };

  static Status check(const Entry& entry, const SequenceEvent& event);
  static Rollout close(Entry entry, Finish finish);

  absl::flat_hash_map<SequenceId, Entry> sequences_;
};

}  // namespace rlgen::generation
