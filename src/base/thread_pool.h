#pragma once

#include <absl/functional/function_ref.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/float_mode.h"

namespace rlgen {

// A fixed set of threads that work through one list of tasks at a time. The caller of run() is
// thread 0 and takes part, so a pool of N starts N - 1 threads; a pool of 1 starts none and runs
// everything inline. An idle thread spins for a few microseconds and then sleeps. Threads that
// wake too late for a run are not waited for. One thread at a time may call run().
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(std::int64_t task, int thread)>;

  // `num_threads` below 1 counts as 1. Where the system gives fewer threads, the pool has fewer,
  // and num_threads() tells.
  explicit ThreadPool(int num_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Must not be called during a run.
  ~ThreadPool();

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(task, thread) once for each task in [0, tasks), in any order and on any thread, and
  // returns when all are done; what they wrote is then visible to the caller. `thread` is in
  // [0, num_threads()) and no two calls that overlap share it. Tasks are claimed in rising order.
  // Every thread is in `mode` while it runs tasks, the caller gets its own back. `tasks` is at
  // most 2^32 - 1. fn must not throw and must not call run() of the same pool (asserted).
  void run(std::int64_t tasks, Task fn, FloatMode mode = FloatMode::kGradual);

 private:
  struct Job {
    const Task* fn = nullptr;
    std::int64_t tasks = 0;
    FloatMode mode = FloatMode::kGradual;
  };

  void wake(std::int64_t wanted);
  void work(int thread);
  bool wait_for_work();
  void work_off(int thread);
  bool claim(std::int64_t* task);
  void wait_until_done(std::int64_t tasks);

  // Low 32 bits: tasks not yet claimed; high 32 bits: number of the run.
  alignas(64) std::atomic<std::uint64_t> unclaimed_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<std::uint32_t> run_number_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};
  alignas(64) Job job_;  // written by run() only while nothing is unclaimed or undone
  bool spin_;            // immutable after construction
  std::vector<std::thread> workers_;
};

}  // namespace rlgen
