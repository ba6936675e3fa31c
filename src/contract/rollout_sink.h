#pragma once

#include "base/status.h"
#include "contract/rollout.h"

namespace rlgen {

// Takes finished rollouts. Called by one thread at a time; blocking is back-pressure.
class RolloutSink {
 public:
  virtual ~RolloutSink() = default;
  // OK once the record is durable as far as this sink promises it; an error ends the run.
  virtual Status accept(const Rollout& rollout) = 0;
};

}  // namespace rlgen
