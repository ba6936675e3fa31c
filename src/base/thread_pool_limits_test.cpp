#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <ctime>
#include <set>
#include <thread>

#include "base/cpu.h"
#include "base/thread_pool.h"

namespace rlgen {
namespace {

// Calls `fn` on a thread that may use the first CPU of this process only.
template <typename Fn>
void on_one_cpu(Fn fn) {
  std::thread([&] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    fn(cpu);
  }).join();
}

TEST(ThreadPoolLimits, ThreadsStayOnTheCpusOfWhoeverStartsThem) {
  on_one_cpu([](int cpu) {
    EXPECT_EQ(usable_cpus(), 1);
    ThreadPool pool(3);
    std::atomic<int> outside = 0;
    std::atomic<int> wide = 0;
    std::atomic<int> arrived = 0;
    pool.run(3, [&](std::int64_t, int) {
      cpu_set_t mine;
      if (::sched_getaffinity(0, sizeof(mine), &mine) != 0 || CPU_COUNT(&mine) != 1) ++wide;
      if (::sched_getcpu() != cpu) ++outside;
      ++arrived;
      while (arrived.load() < 3) std::this_thread::yield();
    });
    EXPECT_EQ(outside, 0);
    EXPECT_EQ(wide, 0);
  });
}

// More threads than CPUs: nobody may spin for a thread that cannot run.
TEST(ThreadPoolLimits, MoreThreadsThanCpusEndTheirWork) {
  on_one_cpu([](int) {
    ThreadPool pool(4);
    std::atomic<std::int64_t> sum = 0;
    for (int i = 0; i < 2000; ++i) {
      pool.run(8, [&](std::int64_t task, int) { sum += task; });
    }
    EXPECT_EQ(sum, 2000 * 28);
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    EXPECT_LT(double(std::clock() - before) / CLOCKS_PER_SEC, 0.005);
  });
}

}  // namespace
}  // namespace rlgen
