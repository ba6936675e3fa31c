#include "generation/update_recovery.h"

#include <algorithm>

namespace rlgen::generation {

std::vector<bool> updates_to_commit(const std::vector<RecoveringShard>& shards,
                                    WeightSerial noted) {
  std::vector<bool> commit;
  for (const RecoveringShard& shard : shards) {
    const auto& open = shard.open_update;
    const bool decided =
        open && open->prepared &&
        (open->serial == noted ||
         std::any_of(shards.begin(), shards.end(),
                     [&](const RecoveringShard& other) { return other.serial == open->serial; }));
    commit.push_back(decided);
  }
  return commit;
}

Recovery recover_updates(std::vector<RecoveringShard>& shards, WeightSerial noted) {
  const std::vector<bool> commit = updates_to_commit(shards, noted);
  for (size_t i = 0; i < shards.size(); ++i) {
    RecoveringShard& shard = shards[i];
    if (!shard.open_update) continue;
    const OpenUpdate open = *shard.open_update;
    const Status ended =
        commit[i] ? shard.sink->commit(open.update_id) : shard.sink->abort(open.update_id);
    if (!ended.ok()) continue;
    shard.open_update.reset();
    if (!commit[i]) continue;
    shard.version = open.version;
    shard.serial = open.serial;
  }
  Recovery found;
  for (const RecoveringShard& shard : shards) {
    if (shard.serial <= found.serial) continue;
    found.version = shard.version;
    found.serial = shard.serial;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].serial != found.serial) found.behind.push_back(i);
  }
  return found;
}

}  // namespace rlgen::generation
