#include "cli/interrupts.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace rlgen::cli {
namespace {

// To this thread, so that no other one can take it.
void send(int signal) { ::pthread_kill(::pthread_self(), signal); }

class InterruptsTest : public testing::TestWithParam<int> {};

TEST_P(InterruptsTest, ASignalIsHeldUntilItIsAskedFor) {
  Interrupts interrupts;
  EXPECT_EQ(interrupts.poll(), std::nullopt);
  send(GetParam());
  EXPECT_EQ(interrupts.poll(), GetParam());
  EXPECT_EQ(interrupts.poll(), GetParam()) << "it stays seen";
}

TEST_P(InterruptsTest, ASignalEndsTheWaitForAPipe) {
  const std::string path = testing::TempDir() + "/silent_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  {
    Interrupts interrupts;
    auto reader = generation::LineReader::open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(*reader->next(interrupts.input_wait(false)), std::nullopt);
    send(GetParam());
    for (const bool may_wait : {true, false}) {
      EXPECT_EQ(*reader->next(interrupts.input_wait(may_wait)), std::nullopt);
      EXPECT_FALSE(reader->ended());
    }
    EXPECT_EQ(interrupts.poll(), GetParam());
  }
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptsTest, testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace rlgen::cli
