#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace rlgen {

// Does one thing when a deadline comes, on a thread of its own, which starts with the first
// deadline and sleeps while there is none. Thread-safe; set and clear may be called with locks held
// that the action takes, and by the action.
class DeadlineTimer {
 public:
  // `clock` outlives the timer. `action` is called without locks, once for each deadline that came,
  // and may find that what it was for is over.
  DeadlineTimer(Clock* clock, std::function<void()> action);
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;
  // Waits for the action. Not with locks held that it takes.
  ~DeadlineTimer();

  // Puts `deadline` in the place of the one that was set. kResourceExhausted, with nothing set,
  // when the system gives no thread.
  Status set(Clock::TimePoint deadline);
  void clear();

 private:
  void run();

  Clock* const clock_;
  const std::function<void()> action_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::TimePoint> deadline_;  // guarded by mutex_
  bool stop_ = false;                         // guarded by mutex_
  std::thread thread_;                        // started under mutex_
};

}  // namespace rlgen
