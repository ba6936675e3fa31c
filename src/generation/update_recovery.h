#pragma once

#include <optional>
#include <vector>

#include "contract/shard.h"

namespace rlgen::generation {

// What a shard says of itself to a coordinator that did not see how it came to it.
struct RecoveringShard {
  WeightSink* sink = nullptr;
  WeightVersion version = 0;
  WeightSerial serial = 0;
  std::optional<OpenUpdate> open_update;
};

// Pure: which open updates to commit; every other one is to be aborted. An update was decided if
// its decision was noted (`noted`, a serial; 0: none) or if some shard serves it already: nobody
// commits before everybody has prepared.
std::vector<bool> updates_to_commit(const std::vector<RecoveringShard>& shards, WeightSerial noted);

struct Recovery {
  WeightVersion version = 0;   // of the newest weights that are served
  WeightSerial serial = 0;     // theirs
  std::vector<size_t> behind;  // shards that serve others and could not be brought to them
};

// Ends every update that is open, so that the shards that can be reached serve the same weights.
Recovery recover_updates(std::vector<RecoveringShard>& shards, WeightSerial noted = 0);

}  // namespace rlgen::generation
