#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace rlgen::python {

// A call that may wait long. It owns what it uses, or that outlives the PatientCalls.
struct PatientCall {
  std::function<Status()> work;
  std::function<void()> stop;  // asks the work to end early; empty: it cannot
  std::function<bool()>
      needs_caller;  // true while the work uses what is the caller's; empty: never
};

// Runs calls on threads of their own, so that whoever waits for one can stop waiting. Knows no
// Python. Thread-safe.
class PatientCalls {
 public:
  PatientCalls() = default;
  PatientCalls(const PatientCalls&) = delete;
  PatientCalls& operator=(const PatientCalls&) = delete;
  // Waits for the calls that were left alone.
  ~PatientCalls();

  // What the work gives. `interrupted` is asked about every 50 ms; once it says true the work is
  // asked to stop, and as soon as it does not need its caller it is left to itself: kCancelled.
  // kResourceExhausted where the system gives no thread.
  Status run(PatientCall call, const std::function<bool()>& interrupted);

 private:
  struct Answer;
  struct Left {
    std::shared_ptr<Answer> answer;
    std::thread thread;
  };
  void leave(std::shared_ptr<Answer> answer, std::thread thread);

  std::mutex mutex_;
  std::vector<Left> left_;  // guarded by mutex_
};

}  // namespace rlgen::python
