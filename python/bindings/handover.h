#pragma once

#include <mutex>

namespace rlgen::python {

// Whether a thing that is being made has come to whoever waits for it, or been given up before:
// never both. Thread-safe.
class Handover {
 public:
  // Hands over, unless it was given up.
  bool take() {
    const std::lock_guard lock(mutex_);
    taken_ = !given_up_;
    return taken_;
  }
  // Too late once it is taken.
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  bool taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  mutable std::mutex mutex_;
  bool given_up_ = false;  // guarded by mutex_
  bool taken_ = false;     // guarded by mutex_
};

}  // namespace rlgen::python
