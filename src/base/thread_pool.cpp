#include "base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <optional>
#include <system_error>

#include "base/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rlgen {
namespace {

// Longer than the gap between two runs of a decode step, far shorter than a scheduler's slice.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kPausesPerClockRead = 16;
constexpr std::uint64_t kUnclaimedMask = 0xffffffffu;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits a little for `ready`; false when the time is over.
template <typename Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : spin_(num_threads <= usable_cpus()) {
  try {
    for (int thread = 1; thread < num_threads; ++thread) {
      workers_.emplace_back([this, thread] { work(thread); });
    }
  } catch (const std::system_error&) {
    // The system gives no more threads; num_threads() says how many there are.
  }
}

ThreadPool::~ThreadPool() {
  assert(!running_.load());
  stop_.store(true);
  run_number_.fetch_add(1);
  run_number_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t tasks, Task fn, FloatMode mode) {
  assert(tasks <= std::numeric_limits<std::uint32_t>::max());
  if (tasks <= 0) return;
  [[maybe_unused]] const bool nested = running_.exchange(true);
  assert(!nested);
  if (workers_.empty() || tasks == 1) {
    const ScopedFloatMode scope(mode);
    for (std::int64_t task = 0; task < tasks; ++task) fn(task, 0);
    running_.store(false);
    return;
  }
  job_ = {&fn, tasks, mode};
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t number = run_number_.load(std::memory_order_relaxed) + 1;
  unclaimed_.store((number << 32) | static_cast<std::uint64_t>(tasks), std::memory_order_release);
  run_number_.store(static_cast<std::uint32_t>(number));
  wake(tasks - 1);
  work_off(0);
  wait_until_done(tasks);
  running_.store(false);
}

void ThreadPool::wake(std::int64_t wanted) {
  const std::int64_t sleepers = sleepers_.load();
  if (sleepers == 0) return;
  if (wanted >= sleepers) return run_number_.notify_all();
  for (std::int64_t i = 0; i < wanted; ++i) run_number_.notify_one();
}

void ThreadPool::work(int thread) {
  ::pthread_setname_np(::pthread_self(), ("rlgen-" + std::to_string(thread)).c_str());
  while (wait_for_work()) work_off(thread);
}

// Returns when there may be work; false when the pool ends.
bool ThreadPool::wait_for_work() {
  const auto has_work = [this] {
    return (unclaimed_.load(std::memory_order_relaxed) & kUnclaimedMask) != 0 || stop_.load();
  };
  if (spin_ && spin_until(has_work)) return !stop_.load();
  sleepers_.fetch_add(1);
  const std::uint32_t seen = run_number_.load();
  if (!has_work()) run_number_.wait(seen);
  sleepers_.fetch_sub(1);
  return !stop_.load();
}

// Runs tasks until none is unclaimed. While a claimed task is not yet counted in done_, run()
// cannot return, so job_ stays as it is.
void ThreadPool::work_off(int thread) {
  std::int64_t task = 0;
  if (!claim(&task)) return;
  const ScopedFloatMode scope(job_.mode);
  std::uint32_t finished = 0;
  do {
    (*job_.fn)(task, thread);
    ++finished;
  } while (claim(&task));
  done_.fetch_add(finished);
  if (caller_sleeps_.load()) done_.notify_one();
}

bool ThreadPool::claim(std::int64_t* task) {
  std::uint64_t seen = unclaimed_.load(std::memory_order_relaxed);
  while ((seen & kUnclaimedMask) != 0) {
    if (unclaimed_.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
      *task = job_.tasks - static_cast<std::int64_t>(seen & kUnclaimedMask);
      return true;
    }
  }
  return false;
}

void ThreadPool::wait_until_done(std::int64_t tasks) {
  const auto expected = static_cast<std::uint32_t>(tasks);
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == expected; };
  if (all_done() || (spin_ && spin_until(all_done))) return;
  caller_sleeps_.store(true);
  for (std::uint32_t seen = done_.load(); seen != expected; seen = done_.load()) done_.wait(seen);
  caller_sleeps_.store(false);
}

}  // namespace rlgen
