#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "contract/request.h"

namespace rlgen {

// Watches the output tokens of one sequence and says when they amount to a stop that the engine
// cannot see itself (stop strings). One object per sequence, used by one thread at a time.
class TokenWatcher {
 public:
  virtual ~TokenWatcher() = default;

  // Takes the next output token. `counts` is false for tokens before min_tokens: a stop that such
  // a token completes is none, now and later. Returns nothing to go on, or the stop string found.
  // A continued sequence feeds its earlier output first, with the same flags.
  virtual std::optional<std::string> on_token(int32_t token, bool counts) = 0;
};

// Makes the watcher of a request, or null where the request has no stop strings. Called from the
// engine's thread.
using TokenWatcherFactory =
    std::function<StatusOr<std::unique_ptr<TokenWatcher>>(const SequenceRequest& request)>;

}  // namespace rlgen
