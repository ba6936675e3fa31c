#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace rlgen::engine {

// Commands for one thread from many. Thread-safe.
class Mailbox {
 public:
  using Command = std::function<void()>;

  // False, with the command dropped, once closed.
  bool post(Command command) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      commands_.push_back(std::move(command));
    }
    arrived_.notify_one();
    return true;
  }

  // What has come, in order. `block`: sleeps until something comes or the box is closed.
  std::vector<Command> take(bool block) {
    std::unique_lock lock(mutex_);
    if (block) arrived_.wait(lock, [&] { return closed_ || !commands_.empty(); });
    return std::exchange(commands_, {});
  }

  // Nothing is taken in from now on; what is there is still handed out.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_one();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Command> commands_;
  bool closed_ = false;
};

}  // namespace rlgen::engine
