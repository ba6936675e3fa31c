#include "refit/checkpoint_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/test_files.h"
#include "refit/faulty_sink.h"

namespace rlgen::refit {
namespace {

using models::SafetensorsFolder;
using models::StoredTensor;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Step = FaultySink::Step;

SafetensorsFolder checkpoint() {
  return *SafetensorsFolder::open("tests/fixtures/checkpoints/llama_sharded");
}

UpdateSpec update() {
  UpdateSpec spec;
  spec.update_id = "u1";
  spec.serial = 1;
  return spec;
}

TEST(SendCheckpoint, DeliversEveryByte) {
  const SafetensorsFolder folder = checkpoint();
  for (const int threads : {0, 1, 2}) {
    FaultySink sink;
    ThreadPool pool(threads);
    ASSERT_TRUE(send_checkpoint(folder, update(), sink, threads == 0 ? nullptr : &pool).ok());
    EXPECT_THAT(sink.calls, ElementsAre("begin", "prepare", "commit"));
    ASSERT_EQ(sink.serving.size(), folder.tensors().size());
    for (const StoredTensor& tensor : folder.tensors()) {
      EXPECT_TRUE(std::ranges::equal(sink.serving[tensor.name], tensor.bytes)) << tensor.name;
    }
  }
}

// Several matrices below each other, as grouped experts are, are cut within them.
TEST(SendCheckpoint, CutsStacksOfMatricesAtRowGroups) {
  models::test::TempFolder file;
  std::string data(100 * 24000 * 4, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = char(i * 2654435761u >> 24);
  file.write(
      "model.safetensors",
      models::test::image(
          R"({"stack":{"dtype":"F32","shape":[2,50,24000],"data_offsets":[0,9600000]}})", data));
  const auto folder = SafetensorsFolder::open(file.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  FaultySink sink;
  ThreadPool pool(2);
  ASSERT_TRUE(send_checkpoint(*folder, update(), sink, &pool).ok());
  EXPECT_EQ(sink.largest, size_t(32 * 24000 * 4));
  EXPECT_TRUE(std::ranges::equal(sink.serving["stack"], std::as_bytes(std::span(data))));
}

TEST(SendCheckpoint, CutsLargeTensorsAtRowGroups) {
  models::test::TempFolder file;
  std::string data(100 * 24000 * 4 + 4, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = char(i * 2654435761u >> 24);
  file.write("model.safetensors",
             models::test::image(
                 R"({"big":{"dtype":"F32","shape":[100,24000],"data_offsets":[0,9600000]},)"
                 R"("none":{"dtype":"F32","shape":[0],"data_offsets":[9600000,9600000]},)"
                 R"("one":{"dtype":"F32","shape":[],"data_offsets":[9600000,9600004]}})",
                 data));
  const auto folder = SafetensorsFolder::open(file.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  FaultySink sink;
  ThreadPool pool(2);
  ASSERT_TRUE(send_checkpoint(*folder, update(), sink, &pool).ok());
  EXPECT_EQ(sink.largest, size_t(32 * 24000 * 4));
  EXPECT_EQ(sink.writes, 4 + 1 + 1);
  EXPECT_TRUE(std::ranges::equal(sink.serving["big"], folder->find("big")->bytes));
}

class AtEachStep : public ::testing::TestWithParam<Step> {};

TEST_P(AtEachStep, KeepsTheOldStateAndAborts) {
  const SafetensorsFolder folder = checkpoint();
  ThreadPool pool(2);
  FaultySink sink;
  sink.serving = {{"old", {std::byte(7)}}};
  const Tensors before = sink.serving;
  sink.fail_at = GetParam();
  sink.good_writes = 3;
  const Status status = send_checkpoint(folder, update(), sink, &pool);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(status), HasSubstr("the sink is out"));
  EXPECT_EQ(sink.serving, before);
  const bool begun = GetParam() != Step::kBegin;
  EXPECT_EQ(sink.calls.back(), begun ? "abort" : "begin");
  if (GetParam() == Step::kWrite) {
    EXPECT_THAT(message_of(status), AllOf(HasSubstr(".safetensors: tensor \"")));
    EXPECT_LE(sink.writes, 5);
  }
  sink.fail_at = Step::kNone;
  EXPECT_TRUE(send_checkpoint(folder, update(), sink, &pool).ok());
  EXPECT_EQ(sink.serving.size(), folder.tensors().size());
}

INSTANTIATE_TEST_SUITE_P(SendCheckpoint, AtEachStep,
                         ::testing::Values(Step::kBegin, Step::kWrite, Step::kPrepare,
                                           Step::kCommit));

TEST(SendCheckpoint, TellsOfAnAbortThatFails) {
  FaultySink sink;
  sink.fail_at = Step::kPrepare;
  sink.abort_fails = true;
  const Status status = send_checkpoint(checkpoint(), update(), sink, nullptr);
  EXPECT_THAT(message_of(status),
              AllOf(HasSubstr("the sink is out"), HasSubstr("update u1"), HasSubstr("gone")));
}

}  // namespace
}  // namespace rlgen::refit
