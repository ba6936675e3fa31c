#include "base/deadline_timer.h"

#include <system_error>
#include <utility>

namespace rlgen {

DeadlineTimer::DeadlineTimer(Clock* clock, std::function<void()> action)
    : clock_(clock), action_(std::move(action)) {}

DeadlineTimer::~DeadlineTimer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status DeadlineTimer::set(Clock::TimePoint deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { run(); });
      } catch (const std::system_error&) {
        return absl::ResourceExhaustedError("the system lets this process start no more threads");
      }
    }
    deadline_ = deadline;
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void DeadlineTimer::clear() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

void DeadlineTimer::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (const Clock::TimePoint at = *deadline_; clock_->now() < at) {
      clock_->wait_until(lock, changed_, at);
    } else {
      deadline_.reset();
      lock.unlock();
      action_();
      lock.lock();
    }
  }
}

}  // namespace rlgen
