#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace rlgen {

// Where every deadline gets its time from. Passed in, never global; any thread may call any member.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;

  // Monotonic: never goes back.
  virtual TimePoint now() const = 0;

  // Blocks the calling thread until now() >= deadline; returns at once when that holds already.
  virtual void sleep_until(TimePoint deadline) = 0;

  // Gives `lock` away until `changed` is notified or now() >= deadline. May come back before.
  virtual void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                          TimePoint deadline) = 0;
};

// The machine's steady clock. Each call makes a new object without state.
std::unique_ptr<Clock> make_system_clock();

// Time that stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = TimePoint{}) : now_(start) {}

  TimePoint now() const override;
  void sleep_until(TimePoint deadline) override;
  // Looks at the time every millisecond of the machine's.
  void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint deadline) override;

  // Moves the time on by `step` (a negative one counts as zero) and wakes the sleepers whose
  // deadline has come.
  void advance(Duration step);

  // How many threads are inside sleep_until, so that a test can wait for them before it advances.
  int sleepers() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  TimePoint now_;
  int sleepers_ = 0;
};

}  // namespace rlgen
