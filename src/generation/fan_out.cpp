#include "generation/fan_out.h"

#include <condition_variable>
#include <memory>
#include <system_error>
#include <utility>

namespace rlgen::generation {
namespace {

// What the calls of one run write to; lives as long as the last of them.
struct Answers {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Status>> results;  // guarded by mutex
  size_t missing = 0;                          // guarded by mutex

  void set(size_t index, Status status) {
    const std::lock_guard lock(mutex);
    results[index] = std::move(status);
    --missing;
    changed.notify_all();
  }
};

}  // namespace

std::vector<Status> FanOut::run(size_t count, Task task,
                                std::optional<std::chrono::milliseconds> timeout) {
  if (count == 1 && !timeout) return {task(0)};
  const auto answers = std::make_shared<Answers>();
  answers->results.resize(count);
  answers->missing = count;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < count; ++i) {
    try {
      threads.emplace_back([answers, task, i] { answers->set(i, task(i)); });
    } catch (const std::system_error&) {
      answers->set(i, absl::ResourceExhaustedError("the system lets this process start no thread"));
    }
  }
  std::unique_lock lock(answers->mutex);
  const auto done = [&] { return answers->missing == 0; };
  if (timeout) {
    answers->changed.wait_for(lock, *timeout, done);
  } else {
    answers->changed.wait(lock, done);
  }
  std::vector<Status> results;
  for (const auto& result : answers->results) {
    results.push_back(result.value_or(absl::DeadlineExceededError("no answer in time")));
  }
  const bool late = !done();
  lock.unlock();
  if (late) {
    const std::lock_guard own(mutex_);
    for (std::jthread& thread : threads) late_.push_back(std::move(thread));
  }
  return results;
}

void FanOut::join() {
  std::vector<std::jthread> late;
  const std::lock_guard lock(mutex_);
  late.swap(late_);
}

}  // namespace rlgen::generation
