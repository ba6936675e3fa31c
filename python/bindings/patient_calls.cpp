#include "bindings/patient_calls.h"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <system_error>
#include <utility>

namespace rlgen::python {
namespace {

constexpr std::chrono::milliseconds kLook{50};

}  // namespace

struct PatientCalls::Answer {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<Status> status;  // guarded by mutex

  void set(Status given) {
    const std::lock_guard lock(mutex);
    status = std::move(given);
    came.notify_all();
  }
  // The answer, if it comes soon.
  std::optional<Status> wait() {
    std::unique_lock lock(mutex);
    came.wait_for(lock, kLook, [&] { return status.has_value(); });
    return status;
  }
};

PatientCalls::~PatientCalls() {
  for (Left& left : left_) left.thread.join();
}

void PatientCalls::leave(std::shared_ptr<Answer> answer, std::thread thread) {
  const std::lock_guard lock(mutex_);
  std::erase_if(left_, [](Left& left) {
    const std::lock_guard own(left.answer->mutex);
    const bool done = left.answer->status.has_value();
    if (done) left.thread.detach();  // it has nothing left to do
    return done;
  });
  left_.push_back({std::move(answer), std::move(thread)});
}

Status PatientCalls::run(PatientCall call, const std::function<bool()>& interrupted) {
  const auto answer = std::make_shared<Answer>();
  std::thread thread;
  try {
    thread = std::thread([answer, work = std::move(call.work)] { answer->set(work()); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system lets this process start no more threads");
  }
  bool stopped = false;
  while (true) {
    if (auto status = answer->wait()) {
      thread.join();
      return *std::move(status);
    }
    if (!stopped && interrupted()) {
      stopped = true;
      if (call.stop) call.stop();
    }
    if (stopped && !(call.needs_caller && call.needs_caller())) break;
  }
  leave(answer, std::move(thread));
  return absl::CancelledError("the caller stopped waiting");
}

}  // namespace rlgen::python
