#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include "contract/error_type.h"
#include "contract/manifest_error.h"
#include "refit/faulty_sink.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"
#include "refit/pickle_frame.h"
#include "refit/shared_memory.h"
#include "refit/zmq_socket.h"

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

class IpcTest : public ::testing::Test {
 protected:
  IpcTest() {
    std::mt19937 random(5);
    for (int i = 0; i < 12; ++i) {
      ManifestEntry entry{.name = "layers." + std::to_string(i), .shape = {}, .digest = {}};
      entry.dtype = i % 2 == 0 ? DType::kBFloat16 : DType::kFloat32;
      entry.shape = i == 7 ? Shape({70, 100}) : Shape({1 + i, 33});
      std::vector<std::byte> bytes(size_t(entry.shape.num_elements() * size_of(entry.dtype)));
      for (std::byte& byte : bytes) byte = std::byte(random());
      spec_.manifest.push_back(entry);
      tensors_[entry.name] = bytes;
    }
    spec_.update_id = "u";
    spec_.version = 4;
    static int made = 0;
    endpoint_ =
        *ipc_endpoint(testing::TempDir(), std::to_string(::getpid()), std::to_string(++made));
  }

  std::future<StatusOr<IpcReport>> receive(IpcReceiveOptions options = {}) {
    options.timeout = std::min<milliseconds>(options.timeout, seconds(20));
    return std::async(std::launch::async,
                      [this, options] { return receive_ipc(endpoint_, spec_, sink_, options); });
  }
  IpcSender sender(int64_t buffer_bytes = 1 << 14) const {
    auto made =
        IpcSender::create(endpoint_, {.buffer_bytes = buffer_bytes, .timeout = seconds(20)});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  TensorView view(const std::string& name) const {
    const auto entry = std::ranges::find(spec_.manifest, name, &ManifestEntry::name);
    return dense_view(tensors_.at(name).data(), entry->dtype, entry->shape);
  }
  Status send_all(IpcSender& to) const {
    for (const ManifestEntry& entry : spec_.manifest) {
      RLGEN_RETURN_IF_ERROR(to.send(entry.name, view(entry.name)));
    }
    return to.finish();
  }

  Tensors tensors_;
  UpdateSpec spec_;
  std::string endpoint_;
  FaultySink sink_;
};

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

TEST_F(IpcTest, T18_FaultsOfTheManifestAreCollectedAndEveryMessageIsAnswered) {
  auto receiving = receive();
  {
    IpcSender to = sender(1 << 12);
    ASSERT_TRUE(to.send("layers.0", view("layers.0")).ok());
    ASSERT_TRUE(to.send("layers.0", view("layers.0")).ok());
    ASSERT_TRUE(to.send("foo", view("layers.1")).ok());
    ASSERT_TRUE(to.send("layers.5", view("layers.5")).ok());
    ASSERT_TRUE(to.finish().ok());
  }
  const Status refused = receiving.get().status();
  EXPECT_EQ(error_type(refused), "IPCWeightManifestError");
  EXPECT_THAT(refused.message(), HasSubstr("1 duplicate (layers.0)"));
  EXPECT_THAT(refused.message(), HasSubstr("1 unexpected (foo)"));
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "abort"));
}

TEST_F(IpcTest, T18_MissingTensorsAreNamedAtTheEnd) {
  auto receiving = receive();
  {
    IpcSender to = sender();
    ASSERT_TRUE(to.send("layers.0", view("layers.0")).ok());
    ASSERT_TRUE(to.finish().ok());
  }
  const Status refused = receiving.get().status();
  EXPECT_EQ(error_type(refused), "IPCWeightManifestError");
  EXPECT_THAT(refused.message(), HasSubstr("11 missing (layers.1, "));
  EXPECT_THAT(refused.message(), HasSubstr(", ...)"));
  EXPECT_TRUE(sink_.serving.empty());
}

TEST_F(IpcTest, T18_OtherShapesThanTheManifestsAreRefused) {
  auto receiving = receive();
  {
    IpcSender to = sender();
    ASSERT_TRUE(to.send("layers.0", view("layers.7")).ok());
    ASSERT_TRUE(to.finish().ok());
  }
  const Status refused = receiving.get().status();
  EXPECT_EQ(error_type(refused), "IPCWeightManifestError");
  EXPECT_THAT(refused.message(),
              HasSubstr("1 of another type or shape (layers.0: sent float32 [70, 100], announced "
                        "bfloat16 [1, 33])"));
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "abort"));
}

// All of them fill the same 512 bytes; those behind them in the batch are where they should be.
TEST_F(IpcTest, T18_ATensorOfAnotherTypeOrShapeThatTakesAsMuchRoomIsNamed) {
  const std::string name = "layers.4";
  const std::vector<std::byte> bytes(512);
  const std::pair<DType, Shape> others[] = {
      {DType::kBFloat16, {5, 32}}, {DType::kBFloat16, {5, 34}}, {DType::kBFloat16, {33, 5}},
      {DType::kBFloat16, {165}},   {DType::kFloat16, {5, 33}},  {DType::kFloat32, {5, 20}}};
  for (const auto& [dtype, shape] : others) {
    sink_.calls.clear();
    auto receiving = receive();
    IpcSender to = sender();
    for (const ManifestEntry& entry : spec_.manifest) {
      const TensorView sent =
          entry.name == name ? dense_view(bytes.data(), dtype, shape) : view(entry.name);
      ASSERT_TRUE(to.send(entry.name, sent).ok());
    }
    ASSERT_TRUE(to.finish().ok());
    const Status refused = receiving.get().status();
    EXPECT_EQ(error_type(refused), "IPCWeightManifestError");
    EXPECT_THAT(refused.message(), HasSubstr("1 of another type or shape (layers.4: sent " +
                                             ipc_layout(dtype, shape)));
    EXPECT_EQ(sink_.calls.back(), "abort");
    EXPECT_TRUE(sink_.serving.empty());
  }
}

TEST_F(IpcTest, ATensorWithGapsIsNotSent) {
  IpcSender to = sender();
  TensorView gaps = view("layers.7");
  gaps.strides[0] *= 2;
  EXPECT_THAT(to.send("layers.7", gaps).message(), HasSubstr("layers.7 is not contiguous"));
}

// A trainer's own sender need not say types and shapes; what does not add up is refused all the
// same.
TEST_F(IpcTest, T18_ASenderThatSaysNoShapesIsHeldToTheSizes) {
  spec_.manifest.resize(1);
  const std::string& name = spec_.manifest[0].name;
  auto memory = *SharedMemory::create("/rlgen-test-" + std::to_string(::getpid()), 1024);
  std::ranges::copy(tensors_.at(name), memory.writable().begin());
  for (const int64_t used : {512, 1024}) {
    auto receiving = receive();
    auto socket = *ZmqSocket::bind_asking(endpoint_);
    const ZmqWait wait{seconds(20), {}};
    const IpcFrame frame{.complete = false,
                         .buffer = memory.name(),
                         .buffer_bytes = memory.size(),
                         .names = {name},
                         .used_bytes = used};
    const IpcFrame complete{.complete = true, .buffer = {}, .names = {}};
    for (const IpcFrame& message : {frame, complete}) {
      ASSERT_TRUE(socket.send(write_frame(message), wait).ok());
      EXPECT_EQ(*socket.receive(wait, false), "ack");
    }
    const Status received = receiving.get().status();
    EXPECT_EQ(received.ok(), used == 512) << received;
    if (!received.ok()) {
      EXPECT_THAT(received.message(), HasSubstr("types and shapes need 512"));
    }
  }
  EXPECT_EQ(sink_.serving.at(name), tensors_.at(name));
}

TEST_F(IpcTest, OnlyAManifestThatTheModelRefusesHasTheTypeOfTheManifest) {
  sink_.fail_at = FaultySink::Step::kBegin;
  const std::pair<Status, std::string> cases[] = {
      {manifest_error(absl::InvalidArgumentError("q is missing")), "IPCWeightManifestError"},
      {absl::InvalidArgumentError("version 4 is served already"), "ValueError"},
      {absl::FailedPreconditionError("update v is open"), "RuntimeError"},
      {absl::UnimplementedError("q has type int8"), "NotImplementedError"}};
  for (const auto& [fault, type] : cases) {
    sink_.fault = fault;
    const Status refused = receive().get().status();
    EXPECT_EQ(refused.code(), fault.code());
    EXPECT_EQ(error_type(refused), type) << refused;
  }
}

TEST_F(IpcTest, BadInputThatCameAfterTheManifestKeepsItsOwnType) {
  sink_.fault = absl::InvalidArgumentError("layers.3[0, 1] is nan");
  for (const auto step : {FaultySink::Step::kWrite, FaultySink::Step::kPrepare}) {
    sink_.fail_at = step;
    auto receiving = receive();
    IpcSender to = sender();
    ASSERT_TRUE(send_all(to).ok());
    const Status refused = receiving.get().status();
    EXPECT_THAT(refused.message(), HasSubstr("is nan"));
    EXPECT_EQ(error_type(refused), "ValueError");
  }
}

TEST_F(IpcTest, AMessageThatIsNoFrameIsBadInputAndNotOfTheManifest) {
  const std::string complete = write_frame({.complete = true, .buffer = {}, .names = {}});
  const std::string unknown = write_frame({.buffer = "none", .names = {"foo"}});
  for (const bool named : {false, true}) {
    auto receiving = receive();
    auto socket = *ZmqSocket::bind_asking(endpoint_);
    const ZmqWait wait{seconds(20), {}};
    for (const std::string& message : {named ? unknown : "hello", std::string("hello"), complete}) {
      ASSERT_TRUE(socket.send(message, wait).ok());
      EXPECT_EQ(*socket.receive(wait, false), "ack");
    }
    const Status refused = receiving.get().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(error_type(refused), named ? "IPCWeightManifestError" : "ValueError") << refused;
    EXPECT_THAT(refused.message(), HasSubstr(named ? "1 unexpected (foo)" : "the message"));
  }
}

TEST_F(IpcTest, AFailureOfTheSinkComesBackAndTheSenderIsNotLeftWaiting_FB103) {
  for (const auto step :
       {FaultySink::Step::kWrite, FaultySink::Step::kPrepare, FaultySink::Step::kCommit}) {
    sink_.fail_at = step;
    auto receiving = receive();
    IpcSender to = sender();
    ASSERT_TRUE(send_all(to).ok());
    EXPECT_EQ(receiving.get().status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(sink_.calls.back(), "abort");
  }
  EXPECT_TRUE(sink_.serving.empty());
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
