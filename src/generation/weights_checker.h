#pragma once

#include <map>
#include <string>
#include <vector>

#include "generation/generation.h"

namespace rlgen::generation {

// Proves that an update brings every tensor: take a snapshot of the weights served, overwrite them,
// send the same weights again, compare. One thread at a time.
class WeightsChecker {
 public:
  // `generation` outlives it.
  explicit WeightsChecker(Generation* generation) : generation_(generation) {}

  // Keeps the digest of every tensor as it is served. Errors: served_checksums's.
  Status snapshot();

  // Serves a pattern in place of every tensor, under the same version: an update of its own, after
  // which running sequences are recomputed. Errors: those of the update.
  Status reset();

  // The tensors whose bytes are not those of the snapshot, by name. kFailedPrecondition without
  // one.
  StatusOr<std::vector<std::string>> compare();

 private:
  Generation* generation_;
  std::map<std::string, std::string> digests_;  // by name
};

}  // namespace rlgen::generation
