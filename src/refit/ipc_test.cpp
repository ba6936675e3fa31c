#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "refit/test_ipc.h"

// Updates over ZeroMQ and shared memory: what arrives, who waits for whom, and what is left behind.
namespace rlgen::refit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

size_t shared_memory_files() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string own = "rlgen-" + std::to_string(::getpid()) + "-";
    count += entry.path().filename().string().starts_with(own) ? 1 : 0;
  }
  return count;
}

TEST_F(IpcTest, T18_EveryTensorArrives) {
  for (const int64_t buffer : {int64_t(1) << 20, int64_t(1) << 14, int64_t(1) << 12}) {
    auto receiving = receive();
    {
      IpcSender to = sender(buffer);  // tensor 7 needs a buffer of its own in the smaller two
      ASSERT_TRUE(send_all(to).ok());
    }
    const auto report = receiving.get();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->tensors, 12);
    EXPECT_GE(report->batches, buffer == 1 << 20 ? 1 : 2);
    EXPECT_EQ(sink_.serving, tensors_);
    EXPECT_EQ(shared_memory_files(), 0u);
  }
}

// Not once a whole buffer is full: the receiver would find it in memory, not in a cache.
TEST_F(IpcTest, ABatchGoesOnceItFillsACache) {
  spec_.manifest.clear();
  for (int i = 0; i < 10; ++i) {
    const ManifestEntry entry{.name = std::to_string(i), .shape = {1024, 320}, .digest = {}};
    tensors_[entry.name].assign(size_t(1024 * 320 * 4), std::byte(i));
    spec_.manifest.push_back(entry);
  }
  std::erase_if(tensors_, [](const auto& tensor) { return tensor.first.starts_with("layers"); });
  auto receiving = receive();
  IpcSender to = sender(kIpcBufferBytes);
  ASSERT_TRUE(send_all(to).ok());
  const auto report = receiving.get();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->batches, 3);  // of 4, 4 and 2 tensors of 1.25 MiB each
  EXPECT_EQ(sink_.serving, tensors_);
}

// Nor does the next tensor that needs a buffer of its own overwrite this one.
TEST_F(IpcTest, ASenderGoesOnWhileATensorOfABufferOfItsOwnIsRead) {
  for (const bool kept : {false, true}) {
    std::promise<void> sent_the_next;
    auto next = sent_the_next.get_future().share();
    bool went_on = false;
    sink_.on_write = [&](std::string_view name) {
      if (name == "layers.7") went_on = next.wait_for(seconds(10)) == std::future_status::ready;
    };
    spec_.manifest[9].shape = {80, 100};
    tensors_["layers.9"].assign(80 * 100 * 4, std::byte(9));
    auto buffers = *IpcBuffers::create(1 << 14);
    auto receiving = receive();
    IpcSendOptions options{.buffer_bytes = 1 << 14, .timeout = seconds(20)};
    if (kept) options.buffers = &buffers;
    auto to = *IpcSender::create(endpoint_, options);
    for (const ManifestEntry& entry : spec_.manifest) {
      ASSERT_TRUE(to.send(entry.name, view(entry.name)).ok());
      if (entry.name == "layers.8") sent_the_next.set_value();
    }
    ASSERT_TRUE(to.finish().ok());
    EXPECT_TRUE(receiving.get().ok());
    EXPECT_TRUE(went_on);
    EXPECT_EQ(sink_.serving, tensors_);
  }
}

TEST_F(IpcTest, T18_OneOfAnyOrderAndOneAtATime_FB081_FB096) {
  auto receiving = receive();
  std::vector<ManifestEntry> shuffled = spec_.manifest;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  {
    IpcSender to = sender(2 * 512);  // one small tensor in each message
    for (const ManifestEntry& entry : shuffled) {
      ASSERT_TRUE(to.send(entry.name, view(entry.name)).ok());
    }
    ASSERT_TRUE(to.finish().ok());
  }
  ASSERT_TRUE(receiving.get().ok());
  EXPECT_EQ(sink_.serving, tensors_);
}

TEST_F(IpcTest, ATensorWithGapsIsNotSent) {
  IpcSender to = sender();
  TensorView gaps = view("layers.7");
  gaps.strides[0] *= 2;
  EXPECT_THAT(to.send("layers.7", gaps).message(), HasSubstr("layers.7 is not contiguous"));
}

TEST_F(IpcTest, T18_OneSideAloneIsATimeout_FB125) {
  const auto alone = receive({.timeout = milliseconds(50)}).get();
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "abort"));
  {
    auto to = *IpcSender::create(endpoint_, {.buffer_bytes = 4096, .timeout = milliseconds(50)});
    ASSERT_TRUE(to.send("layers.0", view("layers.0")).ok());
    const Status nobody = to.finish();
    EXPECT_EQ(nobody.code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_FALSE(std::filesystem::exists(endpoint_.substr(6)));
  EXPECT_EQ(shared_memory_files(), 0u);
  auto receiving = receive();
  IpcSender to = sender();
  ASSERT_TRUE(send_all(to).ok());
  EXPECT_TRUE(receiving.get().ok());
}

TEST_F(IpcTest, TheDeadlineHoldsWhileMessagesCome) {
  spec_.deadline = milliseconds(120);
  auto receiving = receive();
  IpcSender to = sender(2 * 512);
  for (const ManifestEntry& entry : spec_.manifest) {
    std::this_thread::sleep_for(milliseconds(30));
    if (receiving.wait_for(seconds(0)) == std::future_status::ready) break;
    to.send(entry.name, view(entry.name)).IgnoreError();
  }
  EXPECT_EQ(receiving.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(sink_.calls.back(), "abort");
  EXPECT_TRUE(sink_.serving.empty());
}

TEST_F(IpcTest, AKilledSenderIsNoticedAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto to = IpcSender::create(endpoint_, {.buffer_bytes = 2 * 512, .timeout = seconds(20)});
    if (!to.ok()) ::_exit(1);
    for (int i = 0; i < 3; ++i) {
      const std::string name = "layers." + std::to_string(i);
      to->send(name, view(name)).IgnoreError();
    }
    ::pause();
    ::_exit(0);
  }
  auto receiving = receive();
  while (sink_.write_count() == 0) std::this_thread::sleep_for(milliseconds(1));
  const auto begun = std::chrono::steady_clock::now();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Status lost = receiving.get().status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(5));
  EXPECT_EQ(sink_.calls.back(), "abort");
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string own = "rlgen-" + std::to_string(child) + "-";
    if (entry.path().filename().string().starts_with(own)) std::filesystem::remove(entry.path());
  }
  IpcSender to = sender();
  auto next = receive();
  ASSERT_TRUE(send_all(to).ok());
  EXPECT_TRUE(next.get().ok());
  EXPECT_EQ(sink_.serving, tensors_);
}

TEST_F(IpcTest, ManyUpdatesLeaveNothingBehind_FB123) {
  for (int round = 0; round < 60; ++round) {
    auto receiving = receive();
    IpcSender to = sender(1 << 12);
    ASSERT_TRUE(send_all(to).ok());
    ASSERT_TRUE(receiving.get().ok());
    EXPECT_LE(shared_memory_files(), 2u);
  }
  EXPECT_EQ(shared_memory_files(), 0u);
}

TEST_F(IpcTest, BuffersThatAreKeptServeEveryUpdate_FB095_FB123) {
  {
    auto buffers = *IpcBuffers::create(1 << 12);
    for (int round = 0; round < 20; ++round) {
      auto receiving = receive();
      auto to = *IpcSender::create(endpoint_, {.buffers = &buffers, .timeout = seconds(20)});
      ASSERT_TRUE(send_all(to).ok());
      ASSERT_TRUE(receiving.get().ok());
      EXPECT_EQ(sink_.serving, tensors_);
      // Two halves, and the one of tensor 7.
      EXPECT_EQ(shared_memory_files(), 3u);
      EXPECT_EQ(buffers.alone->size(), int64_t(ipc_align(tensors_["layers.7"].size())));
    }
  }
  EXPECT_EQ(shared_memory_files(), 0u);
}

TEST(IpcEndpoint, IsTheSameOnBothSidesAndNamesTheRun) {
  EXPECT_EQ(*ipc_endpoint("/tmp", "run-7", "0"), "ipc:///tmp/rlgen-run-7-0.sock");
  EXPECT_THAT(ipc_endpoint("/tmp", "a/b", "0").status().message(), HasSubstr("run is 'a/b'"));
  EXPECT_THAT(ipc_endpoint("/tmp", "r", "").status().message(), HasSubstr("shard is ''"));
  EXPECT_THAT(ipc_endpoint("/tmp", std::string(120, 'x'), "0").status().message(),
              HasSubstr("at most 107"));
}

}  // namespace
}  // namespace rlgen::refit
