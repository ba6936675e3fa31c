#include "base/clock.h"

#include <thread>

namespace rlgen {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void sleep_until(TimePoint deadline) override { std::this_thread::sleep_until(deadline); }
  void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint deadline) override {
    changed.wait_until(lock, deadline);
  }
};

}  // namespace

std::unique_ptr<Clock> make_system_clock() { return std::make_unique<SystemClock>(); }

Clock::TimePoint ManualClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void ManualClock::sleep_until(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  moved_.wait(lock, [&] { return now_ >= deadline; });
  --sleepers_;
}

void ManualClock::wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                             TimePoint deadline) {
  if (now() < deadline) changed.wait_for(lock, std::chrono::milliseconds(1));
}

void ManualClock::advance(Duration step) {
  {
    const std::lock_guard lock(mutex_);
    if (step > Duration::zero()) now_ += step;
  }
  moved_.notify_all();
}

int ManualClock::sleepers() const {
  const std::lock_guard lock(mutex_);
  return sleepers_;
}

}  // namespace rlgen
