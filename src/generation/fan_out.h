#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/status.h"

namespace rlgen::generation {

// Calls one thing on several shards at once, so that a slow one delays nobody. A call that does not
// come back in time stays on a thread of its own until join(). Thread-safe but for join.
class FanOut {
 public:
  using Task = std::function<Status(size_t index)>;

  FanOut() = default;
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;
  ~FanOut() { join(); }

  // The results of task(0) .. task(count - 1), once all have come; kDeadlineExceeded for each that
  // has not by `timeout`. `task` must stay callable until join.
  std::vector<Status> run(size_t count, Task task,
                          std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Waits for every call.
  void join();

 private:
  std::mutex mutex_;
  std::vector<std::jthread> late_;  // guarded by mutex_
};

}  // namespace rlgen::generation
