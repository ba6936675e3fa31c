#include <gmock/gmock.h>

#include "contract/error_type.h"
#include "contract/manifest_error.h"
#include "refit/pickle_frame.h"
#include "refit/shared_memory.h"
#include "refit/test_ipc.h"
#include "refit/zmq_socket.h"

// Updates over ZeroMQ that are refused: by the manifest, by a message, by the sink.
namespace rlgen::refit {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace rlgen::refit
